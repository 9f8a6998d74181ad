package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"highwater/storage"
)

// config is every setting of a broker. Each field is a flag, the environment
// variable HIGHWATER_<NAME> and a key of the --config file, all of one name;
// the flag wins over the environment, that over the file, that over the default.
type config struct {
	Listen         string   `group:"network" placeholder:"HOST:PORT" help:"Address of the one port: clients, peers, console. Port 0 takes any free one (default: this node's address in --cluster, else 127.0.0.1:8080)."`
	AdvertiseURL   string   `group:"network" name:"advertise-url" placeholder:"URL" help:"How clients and peers reach this broker (default: http:// and the bound address)."`
	PublicURL      string   `group:"network" name:"public-url" placeholder:"URL" help:"How clients reach this broker when a proxy is in between, for addresses in answers such as base_uri (default: the Host of the request)."`
	MaxConnections int      `group:"network" default:"0" placeholder:"N" help:"Most open connections; further ones get 503 (default: three quarters of the descriptor limit)."`
	MaxRequest     byteSize `group:"network" name:"max-request-bytes" default:"128MiB" placeholder:"SIZE" help:"Most bytes of one request body, counted after decompression (default ${default})."`

	DataDir       string        `group:"storage" default:"./data" placeholder:"DIR" help:"Where everything is kept; one process at a time (default ${default})."`
	Fsync         storage.Fsync `group:"storage" default:"commit" enum:"commit,interval,never" placeholder:"MODE" help:"When records are forced to disk: commit (before acks=-1 is answered), interval, never (default ${default})."`
	FsyncInterval duration      `group:"storage" default:"1s" placeholder:"DURATION" help:"How often --fsync=interval forces to disk (default ${default})."`
	DiskReserve   byteSize      `group:"storage" default:"64MiB" placeholder:"SIZE" help:"Produce is refused (507) when less than this is free; reads and deletes go on (default ${default})."`

	DefaultAcks              acks `group:"topics" default:"1" placeholder:"0|1|-1" help:"What a produce without acks= waits for (default ${default})."`
	DefaultPartitions        int  `group:"topics" default:"1" placeholder:"N" help:"Partitions of a topic that names no number (default ${default})."`
	DefaultReplicationFactor int  `group:"topics" default:"0" placeholder:"N" help:"Copies of a topic that names no number (default: 3, or the number of brokers if that is less)."`
	MinInsyncReplicas        int  `group:"topics" name:"min-insync-replicas" default:"0" placeholder:"N" help:"Copies that must be in sync for acks=-1 (default: 2 when the factor is 3 or more, else 1)."`
	AutoCreateTopics         bool `group:"topics" help:"Let a produce to an unknown topic create it (default: no; such a produce is 404)."`

	CommitOffsetMeaning string `group:"groups" name:"commit-offset-meaning" default:"next" enum:"next,last-processed" placeholder:"MEANING" help:"What offset means in a commit: the next one to read (Kafka's meaning), or the last one processed (that of Confluent's REST proxy): next, last-processed (default ${default})."`

	NodeID               int32    `group:"cluster" name:"node-id" default:"1" placeholder:"N" help:"This broker's number, for ever (default ${default})."`
	Cluster              voters   `group:"cluster" placeholder:"1=URL,2=URL,.." help:"The first controller voters, 1, 3 or 5 of them; the same value on every one."`
	Join                 string   `group:"cluster" placeholder:"URL" help:"Join the cluster of the broker at URL: as a further broker, or in place of one whose disk is gone."`
	ClusterSecretFile    string   `group:"cluster" placeholder:"FILE" help:"Secret that brokers show each other; needed when they run on several machines."`
	ReplicaLagTimeMax    duration `group:"cluster" default:"10s" placeholder:"DURATION" help:"A follower that has not caught up for this long leaves the in-sync set (default ${default})."`
	BrokerSessionTimeout duration `group:"cluster" default:"6s" placeholder:"DURATION" help:"A broker that is silent for this long is fenced (default ${default})."`

	LogLevel  string `group:"process" default:"info" enum:"trace,debug,info,warn,error" placeholder:"LEVEL" help:"Least level that is logged: trace, debug, info, warn, error (default ${default})."`
	LogFormat string `group:"process" default:"auto" enum:"auto,json,console" placeholder:"FORMAT" help:"json, console, or auto: console on a terminal (default ${default})."`
	Config    string `group:"process" placeholder:"FILE" help:"YAML file; its keys are the names of these flags."`

	Version kong.VersionFlag `group:"process" env:"-" help:"Print the version and exit."`

	// How long a connection may take over its request's headers, and may lie idle.
	// Hidden: only tests have a reason to change them.
	ReadHeaderTimeout duration `hidden:"" default:"10s"`
	IdleTimeout       duration `hidden:"" default:"120s"`
	// How long several voters wait for their leader before they elect another; 0: as
	// the controller has it. Hidden: shorter is for tests, on a machine that is quiet
	// enough.
	QuorumTimeout duration `hidden:"" default:"0s"`
	// How often logs to compact are looked for; 0: as replication has it. Hidden: only
	// tests have a reason not to wait.
	CompactionInterval duration `hidden:"" default:"0s"`
	// The versions of the protocol between brokers that this one claims to speak.
	// Hidden: a test of upgrades has no other release to run.
	Protocol protocolRange `hidden:"" placeholder:"LOW-HIGH"`
	// A file that says what goes wrong on the disk, see vfs.ParsePlan; it is looked at
	// all the time. Hidden: it makes a sound disk lose records.
	DiskFaults string `hidden:"" placeholder:"FILE"`
	// Peers that are dialled elsewhere than where they say they are. Hidden: it puts
	// a fault proxy into one direction of one link.
	PeerVia detours `hidden:"" placeholder:"HOST:PORT=HOST:PORT,.."`

	Serve       struct{}       `cmd:"" hidden:"" default:"1" help:"Run the broker."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask the broker on this machine whether it serves; for images that hold no curl."`

	secret     []byte   // what ClusterSecretFile holds
	unknownEnv []string // HIGHWATER_ variables that are no setting
	advice     []string // settings that are allowed and unwise
}

// healthcheckCmd is the subcommand that the container image's HEALTHCHECK runs.
type healthcheckCmd struct {
	URL string `arg:"" optional:"" help:"Base URL of the broker (default: from --listen)."`
}

// command is what the command line asked for.
type command string

const (
	commandServe       command = "serve"
	commandHealthcheck command = "healthcheck"
)

// errPrinted says that what was asked for is printed already (--help, --version).
var errPrinted = errors.New("printed")

// parseConfig reads flags, environment and file, and checks every value. The
// error lists everything that is wrong, one fault a line, each saying what to do.
func parseConfig(args []string, out io.Writer) (cfg *config, cmd command, err error) {
	cfg = &config{}
	printed := false
	parser, err := kong.New(cfg,
		kong.Name("highwater"),
		kong.Description("Highwater is an HTTP broker that keeps partitioned, durable logs. Each flag is also the environment variable "+
			"HIGHWATER_<NAME> (HIGHWATER_DATA_DIR) and a key of the --config file (data-dir: /srv/hw); flag wins over environment over file."),
		kong.Vars{"version": "highwater " + version},
		kong.DefaultEnvars(envPrefix),
		kong.ExplicitGroups([]kong.Group{
			{Key: "network", Title: "Network:"}, {Key: "storage", Title: "Storage:"}, {Key: "topics", Title: "Topics:"},
			{Key: "groups", Title: "Consumer groups:"},
			{Key: "cluster", Title: "Cluster:"}, {Key: "process", Title: "Process:"},
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.ValueFormatter(plainHelp),
		kong.Writers(out, out),
		kong.Exit(func(int) { printed = true }),
		kong.WithBeforeResolve(func(ctx *kong.Context) error {
			cfg.unknownEnv = unknownEnv(ctx)
			return addConfigFile(ctx)
		}),
	)
	if err != nil {
		return nil, "", err
	}
	ctx, err := parser.Parse(args)
	if printed {
		return nil, "", errPrinted
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w\nrun with --help to see every setting", err)
	}
	cfg.resolveListen()
	if cmd = commandServe; strings.HasPrefix(ctx.Command(), "healthcheck") {
		return cfg, commandHealthcheck, nil // needs the address alone
	}
	return cfg, cmd, cfg.check()
}

// plainHelp leaves the help text alone: the naming rule of the environment
// variables is said once at the top instead of behind each flag.
func plainHelp(v *kong.Value) string { return v.Help }

// Bounds of the settings, and why.
const (
	maxPartitionsDefault = 10_000                // what one broker is measured to carry
	minRequestBytes      = 1 << 10               // less refuses every real request
	maxRequestBytes      = 1 << 30               // a body is held in memory
	minFsyncInterval     = 10 * time.Millisecond // shorter is --fsync=commit at a higher price
	maxFsyncInterval     = time.Hour             // longer is --fsync=never
	minConnections       = 16
)

// check tells every value that can't be used.
func (c *config) check() error {
	var faults []error
	bad := func(flag string, value any, want string) {
		faults = append(faults, fmt.Errorf("--%s %q: %s", flag, fmt.Sprint(value), want))
	}
	if _, _, err := splitListen(c.Listen); err != nil {
		bad("listen", c.Listen, err.Error())
	}
	if c.AdvertiseURL != "" {
		if clean, err := baseURL(c.AdvertiseURL); err != nil {
			bad("advertise-url", c.AdvertiseURL, err.Error())
		} else {
			c.AdvertiseURL = clean
		}
	}
	if c.PublicURL != "" {
		if clean, err := baseURL(c.PublicURL); err != nil {
			bad("public-url", c.PublicURL, err.Error())
		} else {
			c.PublicURL = clean
		}
	}
	if c.MaxConnections != 0 && c.MaxConnections < minConnections {
		bad("max-connections", c.MaxConnections, fmt.Sprintf("must be 0 (from the descriptor limit) or at least %d", minConnections))
	}
	if c.MaxRequest < minRequestBytes || c.MaxRequest > maxRequestBytes {
		bad("max-request-bytes", c.MaxRequest, "must be 1KiB to 1GiB: a body is held in memory")
	}
	if strings.TrimSpace(c.DataDir) == "" {
		bad("data-dir", c.DataDir, "must name a directory, such as ./data")
	}
	between(bad, "fsync-interval", c.FsyncInterval, minFsyncInterval, maxFsyncInterval)
	if c.DiskReserve < 0 {
		bad("disk-reserve", c.DiskReserve, "must not be negative; 0 switches the guard off")
	}
	c.checkCluster(bad)
	c.checkTopics(bad)
	return errors.Join(faults...)
}

func between(bad func(string, any, string), flag string, d duration, low, high time.Duration) {
	if time.Duration(d) < low || time.Duration(d) > high {
		bad(flag, d, fmt.Sprintf("must be %v to %v", low, high))
	}
}

// splitListen takes HOST:PORT apart. An empty host is every address.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, errors.New("want HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or :8080")
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 || strings.HasPrefix(text, "+") {
		return "", 0, fmt.Errorf("port %q must be a number from 0 (any free one) to 65535", text)
	}
	return host, port, nil
}

// baseURL checks a broker's URL and takes a final slash off it.
func baseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("want http://HOST:PORT or https://HOST[:PORT], without query or user")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (c *config) level() zerolog.Level {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		panic(err) // the enum names only levels that zerolog has
	}
	return level
}
