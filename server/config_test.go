package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"highwater/replication"
	"highwater/storage"
)

func parse(t *testing.T, args ...string) (*config, error) {
	t.Helper()
	cfg, _, err := parseConfig(args, new(bytes.Buffer))
	return cfg, err
}

func yamlFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hw.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:8080" || cfg.DataDir != "./data" || cfg.NodeID != 1 || cfg.Fsync != storage.FsyncCommit ||
		cfg.DefaultAcks != acks(replication.AcksLeader) || cfg.DefaultPartitions != 1 || cfg.MaxRequest != 128<<20 || cfg.AutoCreateTopics ||
		cfg.ReplicaLagTimeMax != duration(10*time.Second) || cfg.LogLevel != "info" {
		t.Errorf("%+v", cfg)
	}
}

// TestConfigPrecedence: flag over environment over file over default, for a text
// and for a type of our own.
func TestConfigPrecedence(t *testing.T) {
	file := "--config=" + yamlFile(t, "data-dir: /file\nmax-request-bytes: 1MiB\nlog-level: debug\n")
	for _, step := range []struct {
		name string
		env  bool
		args []string
		dir  string
		max  byteSize
	}{
		{"default", false, nil, "./data", 128 << 20},
		{"file", false, []string{file}, "/file", 1 << 20},
		{"environment over file", true, []string{file}, "/env", 2 << 20},
		{"flag over all", true, []string{file, "--data-dir=/flag", "--max-request-bytes=3MiB"}, "/flag", 3 << 20},
		{"environment over default", true, nil, "/env", 2 << 20},
	} {
		t.Run(step.name, func(t *testing.T) {
			if step.env {
				t.Setenv("HIGHWATER_DATA_DIR", "/env")
				t.Setenv("HIGHWATER_MAX_REQUEST_BYTES", "2MiB")
			}
			cfg, err := parse(t, step.args...)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.DataDir != step.dir || cfg.MaxRequest != step.max {
				t.Errorf("data-dir %s, max-request-bytes %d; want %s, %d", cfg.DataDir, cfg.MaxRequest, step.dir, step.max)
			}
		})
	}
	t.Run("the file itself by environment", func(t *testing.T) {
		t.Setenv("HIGHWATER_CONFIG", strings.TrimPrefix(file, "--config="))
		cfg, err := parse(t)
		if err != nil || cfg.DataDir != "/file" || cfg.LogLevel != "debug" {
			t.Errorf("%v %+v", err, cfg)
		}
	})
}

// TestEveryFlagIsEnvironmentAndYAML sets each flag of the contract in all three ways.
func TestEveryFlagIsEnvironmentAndYAML(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"listen": "[::1]:0", "advertise-url": "https://hw.example.com", "data-dir": "/d", "node-id": "7",
		"cluster": "7=https://hw.example.com,8=https://hw2.example.com,9=https://hw3.example.com", "join": "https://hw2.example.com",
		"cluster-secret-file": secret, "default-acks": "-1", "default-partitions": "6", "default-replication-factor": "5",
		"min-insync-replicas": "3", "replica-lag-time-max": "3s", "broker-session-timeout": "6s", "fsync": "interval",
		"auto-create-topics": "true", "max-request-bytes": "64MiB", "log-level": "warn", "log-format": "json",
		"max-connections": "100", "fsync-interval": "250ms", "disk-reserve": "1GiB",
		"public-url": "https://kafka.example.com/hw", "commit-offset-meaning": "last-processed",
	}
	var flags, yaml []string
	for name, value := range values {
		flags = append(flags, "--"+name+"="+value)
		if strings.HasPrefix(value, "[") { // YAML would see a list
			value = `"` + value + `"`
		}
		yaml = append(yaml, name+": "+value)
	}
	want, err := parse(t, flags...)
	if err != nil {
		t.Fatal(err)
	}
	same := func(t *testing.T, got *config, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got.Config = ""; got.Cluster.String() != want.Cluster.String() || string(got.secret) != string(want.secret) {
			t.Errorf("cluster %s, secret %q", got.Cluster, got.secret)
		}
		a, b := *got, *want
		a.Cluster, b.Cluster, a.secret, b.secret = nil, nil, nil, nil
		if !reflect.DeepEqual(a, b) {
			t.Errorf("got  %+v\nwant %+v", a, b)
		}
	}
	t.Run("yaml", func(t *testing.T) {
		got, err := parse(t, "--config="+yamlFile(t, strings.Join(yaml, "\n")))
		same(t, got, err)
	})
	t.Run("environment", func(t *testing.T) {
		for name, value := range values {
			t.Setenv("HIGHWATER_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
		}
		got, err := parse(t)
		same(t, got, err)
	})
}

// TestConfigRefusals: each bad value is named, and the message says what to do.
func TestConfigRefusals(t *testing.T) {
	file := func(text string) string { return "--config=" + yamlFile(t, text) }
	for _, c := range []struct {
		arg  string
		want string
	}{
		{"--listen=8080", "want HOST:PORT"},
		{"--listen=127.0.0.1:99999", "0 (any free one) to 65535"},
		{"--advertise-url=example.com:80", "want http://HOST:PORT"},
		{"--advertise-url=http://u:p@example.com", "without query or user"},
		{"--data-dir=", "must name a directory"},
		{"--max-request-bytes=12", "1KiB to 1GiB"},
		{"--max-request-bytes=1.5MiB", "is no size"},
		{"--max-request-bytes=9223372036854775807GiB", "is no size"},
		{"--fsync=always", `must be one of "commit","interval","never"`},
		{"--fsync-interval=10", "number with its unit"},
		{"--default-acks=2", "want 0, 1, -1 or all"},
		{"--public-url=kafka.example.com", "want http://HOST:PORT"},
		{"--commit-offset-meaning=last", "must be one of"},
		{"--default-partitions=0", "must be 1 to 10000"},
		{"--default-replication-factor=3", "there is one broker"},
		{"--min-insync-replicas=2", "no acks=-1 could succeed"},
		{"--node-id=0", "must be 1 or more"},
		{"--node-id=x", "node-id"},
		{"--replica-lag-time-max=1ms", "must be 500ms to 10m"},
		{"--broker-session-timeout=1h", "must be 1s to 10m"},
		{"--max-connections=3", "at least 16"},
		{"--cluster=1=http://127.0.0.1:1,2=http://b:1", "prove themselves by a secret"},
		{"--join=http://10.0.0.7:8080", "prove themselves by a secret"},
		{"--cluster=" + loopbackVoters(10), "at most 9"},
		{"--protocol=2", "no range of versions"},
		{"--protocol=3-2", "no range of versions"},
		{"--quorum-timeout=1ms", "must be 100ms to 10s"},
		{"--cluster-secret-file=" + secretFile(t, "0123456789abcdef", 0o620), "others may write it"},
		{"--cluster-secret-file=" + secretFile(t, "  short \n", 0o600), "must hold 16 to 4096 bytes"},
		{"--cluster-secret-file=" + secretFile(t, "0123456789\n0123456789", 0o600), "one line of printable ASCII"},
		{"--cluster=2=http://a:1", "does not name this node"},
		{"--cluster=1=http://a:1,1=http://b:1", "twice"},
		{"--cluster=nonsense", "want ID=URL"},
		{"--join=here", "want http://HOST:PORT"},
		{"--cluster-secret-file=/nowhere/at/all", "no such file"},
		{"--log-level=loud", "log-level"},
		{"--lisen=x", `did you mean "--listen"`},
		{"server", "unexpected argument"},
		{"--config=/nowhere.yaml", "no such file"},
		{file("listn: 127.0.0.1:0\n"), `unknown key "listn"; did you mean "listen"?`},
		{file("max_request_bytes: 1MiB\n"), `did you mean "max-request-bytes"?`},
		{file("zzzzzz: 1\n"), "run with --help"},
		{file("listen:\n"), "has no value"},
		{file("cluster: [a, b]\n"), "want one plain value"},
		{file("storage: {fsync: never}\n"), "unknown key"},
		{file("listen: a:1\n---\nlisten: b:1\n"), "more than one YAML document"},
		{file("listen: a:1\nlisten: b:1\n"), "already defined"},
		{file("\tlisten: [\n"), "yaml"},
		{file("- listen\n"), "cannot unmarshal"},
		{file("config: other.yaml\n"), "unknown key"},
		{file("max-request-bytes: true\n"), "want text or a number"},
		{file("fsync: always\n"), "must be one of"},
	} {
		t.Run(c.arg, func(t *testing.T) {
			_, err := parse(t, c.arg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant: %s", err, c.want)
			}
		})
	}
}

// secretFile makes a file with that text and mode.
func secretFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// loopbackVoters is a --cluster of n nodes on this machine.
func loopbackVoters(n int) string {
	var v voters
	for i := range n {
		v = append(v, voter{int32(i + 1), fmt.Sprintf("http://127.0.0.1:%d", 9001+i)})
	}
	return v.String()
}

// TestClusterConfig: what a node of a cluster makes of its flags, and the advice
// that it gives.
func TestClusterConfig(t *testing.T) {
	list := "--cluster=" + loopbackVoters(3)
	for _, c := range []struct {
		name        string
		args        []string
		listen, url string
		advice      string
	}{
		{"alone", nil, defaultListen, "", ""},
		{"the list says where", []string{"--node-id=2", list}, "127.0.0.1:9002", "http://127.0.0.1:9002", ""},
		{"--listen says where", []string{"--node-id=2", "--listen=:7000", list}, ":7000", "http://127.0.0.1:9002", ""},
		{"two voters", []string{"--cluster=" + loopbackVoters(2)}, "127.0.0.1:9001", "http://127.0.0.1:9001", "an even number survives no more losses than 1"},
		{"seven voters", []string{"--cluster=" + loopbackVoters(7)}, "127.0.0.1:9001", "http://127.0.0.1:9001", "5 survive the loss of two"},
		{"a further broker", []string{"--node-id=4", "--listen=127.0.0.1:9004", "--join=http://127.0.0.1:9001/"}, "127.0.0.1:9004", "", ""},
		{"a further broker that has the list", []string{"--node-id=4", "--join=http://127.0.0.1:9001", list}, defaultListen, "", ""},
		{"replaces a voter", []string{"--node-id=2", "--join=http://127.0.0.1:9001", list}, "127.0.0.1:9002", "http://127.0.0.1:9002", ""},
		{"by name, behind a secret", []string{"--cluster=1=http://hw1:80,2=http://hw2:80,3=http://hw3:80", "--cluster-secret-file=" + secretFile(t, "\n0123456789abcdef\r\n", 0o644)},
			":80", "http://hw1:80", "everybody on this machine may read it"},
		{"behind TLS", []string{"--cluster=1=https://hw1,2=https://hw2,3=https://hw3", "--cluster-secret-file=" + secretFile(t, "0123456789abcdef", 0o640)},
			defaultListen, "https://hw1", ""},
		{"a factor for later brokers", []string{list, "--default-replication-factor=5", "--min-insync-replicas=3"}, "127.0.0.1:9001", "http://127.0.0.1:9001", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := parse(t, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Listen != c.listen || cfg.AdvertiseURL != c.url {
				t.Errorf("listens on %s, is %s; want %s, %s", cfg.Listen, cfg.AdvertiseURL, c.listen, c.url)
			}
			if advice := strings.Join(cfg.advice, "\n"); !strings.Contains(advice, c.advice) || (c.advice == "") != (advice == "") {
				t.Errorf("advice %q, want %q", advice, c.advice)
			}
			if cfg.ClusterSecretFile != "" && string(cfg.secret) != "0123456789abcdef" {
				t.Errorf("secret %q", cfg.secret)
			}
		})
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--node-id=4", list}, "start a further broker with --join URL"},
		{[]string{"--node-id=2", list, "--join=http://127.0.0.1:9002"}, "is this node itself"},
		{[]string{"--node-id=2", list, "--advertise-url=http://127.0.0.1:1"}, "another URL than --advertise-url"},
		{[]string{list, "--min-insync-replicas=4"}, "must not be above the replication factor (3)"},
	} {
		if _, err := parse(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant: %s", c.args, err, c.want)
		}
	}
}

// TestConfigTellsAllFaults: not one fault a start.
func TestConfigTellsAllFaults(t *testing.T) {
	_, err := parse(t, "--listen=x", "--node-id=0", "--max-request-bytes=1")
	for _, flag := range []string{"--listen", "--node-id", "--max-request-bytes"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s isn't in: %v", flag, err)
		}
	}
}

func TestConfigPrintsAndEnds(t *testing.T) {
	for arg, want := range map[string]string{"--version": "highwater " + version, "--help": "--advertise-url"} {
		out := new(bytes.Buffer)
		if _, _, err := parseConfig([]string{arg}, out); !errors.Is(err, errPrinted) || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", arg, err, out)
		}
		if strings.Contains(out.String(), "read-header-timeout") {
			t.Errorf("%s shows a hidden flag", arg)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1": 1, "512KiB": 512 << 10, "128MiB": 128 << 20, "1GiB": 1 << 30, "2 MB": 2e6, "1k": 1 << 10, "10b": 10} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "MiB", "1.5MiB", "1XiB", "0x10", "1e6", "--1"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}
