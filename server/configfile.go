package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	kongyaml "github.com/alecthomas/kong-yaml"
	"gopkg.in/yaml.v3"
)

const envPrefix = "HIGHWATER"

// addConfigFile has kong read the --config file, if one is named. Kong asks
// resolvers after the environment and lets them win; envFirst turns that round.
func addConfigFile(ctx *kong.Context) error {
	flags := map[string]*kong.Flag{}
	for _, f := range ctx.Model.Flags {
		flags[f.Name] = f
	}
	path, _ := ctx.FlagValue(flags["config"]).(string)
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := checkConfigFile(data, flags); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	file, err := kongyaml.Loader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	ctx.AddResolver(envFirst{file})
	return nil
}

// unknownEnv lists the environment's HIGHWATER_ variables that are no setting.
// They are no error: container platforms put in their own, such as HIGHWATER_PORT.
func unknownEnv(ctx *kong.Context) (names []string) {
	known := map[string]bool{}
	for _, f := range ctx.Model.Flags {
		for _, name := range f.Envs {
			known[name] = true
		}
	}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, envPrefix+"_") && !known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// notInFile are flags that make no sense in the file.
func notInFile(name string) bool {
	return name == "config" || name == "help" || name == "version"
}

// checkConfigFile refuses what a YAML reader would pass over in silence: unknown
// keys, keys without a value, lists and maps, further documents.
func checkConfigFile(data []byte, flags map[string]*kong.Flag) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var keys map[string]any
	if err := dec.Decode(&keys); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("holds more than one YAML document; only one would be read")
	}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if flags[key] == nil || notInFile(key) {
			faults = append(faults, fmt.Errorf("unknown key %q%s", key, nearest(key, flags)))
			continue
		}
		switch keys[key].(type) {
		case nil:
			faults = append(faults, fmt.Errorf("key %q has no value; give one or remove the line", key))
		case map[string]any, map[any]any, []any:
			faults = append(faults, fmt.Errorf("key %q: want one plain value, written as behind --%s", key, key))
		}
	}
	return errors.Join(faults...)
}

// nearest names the flag that was probably meant.
func nearest(key string, flags map[string]*kong.Flag) string {
	key = strings.ToLower(strings.ReplaceAll(key, "_", "-"))
	best, bestDistance := "", len(key)/2+1
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if d := editDistance(key, name); d < bestDistance && !flags[name].Hidden && !notInFile(name) {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		return "; run with --help to see every name"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is Levenshtein's: how many letters to add, drop or change.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// envFirst is a resolver that stays silent where the environment has spoken.
type envFirst struct{ kong.Resolver }

// Resolve asks the file for what the environment leaves open.
func (e envFirst) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	return e.Resolver.Resolve(ctx, parent, flag)
}
