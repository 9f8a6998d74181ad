package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serve runs one server of a cluster until SIGTERM.
func serve(args []string) error {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	name := f.String("name", "", "name of the server")
	port := f.Int("port", 0, "port of clients")
	clusterPort := f.Int("cluster", 0, "port of the other servers")
	routes := f.String("routes", "", "URLs of all servers' cluster ports")
	dir := f.String("dir", "", "data")
	sync := f.String("sync", "default", "always: fsync before an acknowledgement; default: every two minutes")
	if err := f.Parse(args); err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: *name, Host: "127.0.0.1", Port: *port, NoSigs: true,
		JetStream: true, StoreDir: *dir, SyncAlways: *sync == "always",
		Cluster: server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: *clusterPort},
		Routes:  server.RoutesFromStr(*routes),
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("the server takes no connections")
	}
	fmt.Println("ready")
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
