package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/millrace-dev/millrace/api"
)

// config is the value of every setting and where it comes from: a default, the
// file, the environment or a flag, the later over the earlier.
type config struct {
	table    []setting
	path     string // of the file; empty without one
	values   map[string]value
	faults   []error // of the file itself and of what it holds
	warnings []string
}

// value is what a setting is set to.
type value struct {
	list []string // one text, unless the setting is a list
	from string   // "default", the file's path, MILLRACE_NAME or --name
	name string   // how it is called there
}

func (v value) text() string { return strings.Join(v.list, ",") }

// loadConfig reads the layers. What is wrong with them is kept for check.
func loadConfig(flags *pflag.FlagSet, environ []string) *config {
	c := &config{table: settingsTable(), values: map[string]value{}}
	for _, s := range c.table {
		c.values[s.name] = value{list: s.split(s.preset), from: "default", name: "--" + s.name}
	}
	variables, onLine := c.environment(environ), commandLine(flags)
	c.path = layered("config", variables, onLine)
	if c.path != "" {
		c.take(c.readFile(), func(s *setting) (from, name string) { return c.path, c.path + ": " + s.name })
	}
	c.take(variables, func(s *setting) (from, name string) { return s.variable(), s.variable() })
	c.take(onLine, func(s *setting) (from, name string) { return "--" + s.name, "--" + s.name })
	return c
}

// layered is a text in the last of some layers that has it.
func layered(name string, layers ...*koanf.Koanf) (text string) {
	for _, layer := range layers {
		if layer.Exists(name) {
			text = layer.String(name)
		}
	}
	return text
}

// take puts a layer's values over those before it.
func (c *config) take(layer *koanf.Koanf, origin func(*setting) (from, name string)) {
	for i := range c.table {
		s := &c.table[i]
		if !layer.Exists(s.name) {
			continue
		}
		from, name := origin(s)
		list, fault := s.read(layer.Get(s.name))
		if fault != "" {
			c.faults = append(c.faults, fmt.Errorf("%s %s", name, fault))
			continue
		}
		c.values[s.name] = value{list: list, from: from, name: name}
	}
}

// read is a value as it stands in a layer, and what is wrong with its form.
func (s *setting) read(raw any) (list []string, fault string) {
	switch v := raw.(type) {
	case string:
		return s.split(v), ""
	case bool, int, int64, uint64, float64:
		return []string{fmt.Sprint(v)}, ""
	case []string:
		return v, ""
	case []any:
		if s.kind != manyText {
			return nil, "must be one value, not a list"
		}
		for _, element := range v {
			one, fault := s.read(element)
			if fault != "" {
				return nil, fault
			}
			list = append(list, one...)
		}
		return list, ""
	case nil:
		return nil, "has no value: give one, or leave it out"
	}
	return nil, "must be " + string(s.kind)
}

// split is the parts of a list that is written as one text.
func (s *setting) split(v string) []string {
	if s.kind != manyText {
		return []string{v}
	}
	var list []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// readFile is the layer of the file. A key that is no setting is a fault.
func (c *config) readFile() *koanf.Koanf {
	layer := koanf.New(".")
	if err := layer.Load(file.Provider(c.path), yaml.Parser()); err != nil {
		c.faults = append(c.faults, fmt.Errorf("read the file of settings %s: %w", c.path, err))
		return koanf.New(".")
	}
	for _, key := range layer.Keys() {
		switch {
		case key == "config":
			c.faults = append(c.faults, fmt.Errorf("%s: config cannot be set in the file itself", c.path))
		case !slices.ContainsFunc(c.table, func(s setting) bool { return s.name == key }):
			c.faults = append(c.faults, fmt.Errorf("%s: %s is not a setting%s", c.path, shown(key), c.nearest(key, "")))
		}
	}
	layer.Delete("config")
	return layer
}

// environment is the layer of the variables. An empty one counts as not set; one
// that is no setting but looks like one is worth a warning.
func (c *config) environment(environ []string) *koanf.Koanf {
	names := map[string]string{}
	for i := range c.table {
		names[c.table[i].variable()] = c.table[i].name
	}
	layer := koanf.New(".")
	known := func(k, v string) (string, any) {
		name, ok := names[k]
		switch {
		case !ok:
			if near := c.nearest(k, "MILLRACE_"); near != "" {
				c.warnings = append(c.warnings, k+" is not a setting"+near)
			}
			return "", nil
		case v == "" && c.isSecret(name):
			c.faults = append(c.faults, fmt.Errorf("%s is set, but empty: unset it, or give the token", k))
			return "", nil
		case v == "":
			return "", nil
		}
		return name, v
	}
	provider := env.Provider(".", env.Opt{Prefix: "MILLRACE_", TransformFunc: known, EnvironFunc: func() []string { return environ }})
	if err := layer.Load(provider, nil); err != nil {
		c.faults = append(c.faults, fmt.Errorf("read the environment: %w", err))
	}
	sort.Strings(c.warnings)
	return layer
}

func (c *config) isSecret(name string) bool {
	return slices.ContainsFunc(c.table, func(s setting) bool { return s.name == name && s.secret })
}

// commandLine is the layer of the flags that were given.
func commandLine(flags *pflag.FlagSet) *koanf.Koanf {
	provider := posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
		v, ok := f.Value.(*settingFlag)
		if !ok || !f.Changed {
			return "", nil
		}
		if v.setting.kind != manyText {
			return f.Name, v.String()
		}
		return f.Name, v.list
	})
	layer := koanf.New(".")
	if err := layer.Load(provider, nil); err != nil {
		panic("read the flags: " + err.Error()) // they are in memory already
	}
	return layer
}

// nearest says which setting a wrong name may have meant, if one is near.
func (c *config) nearest(wrong, prefix string) string {
	best, least := "", 3
	for i := range c.table {
		name := c.table[i].name
		if prefix != "" {
			name = c.table[i].variable()
		}
		if d := distance(wrong, name); d < least && 2*d < len(name)-len(prefix) {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is how many letters must change to make one name of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// check is every fault of the settings that a command uses, in one error.
func (c *config) check(command string) error {
	faults := slices.Clone(c.faults)
	for i := range c.table {
		s := &c.table[i]
		if !s.usedBy(command) {
			continue
		}
		v := c.values[s.name]
		for _, one := range v.list {
			if one == "" && s.preset == "" {
				continue
			}
			if fault := s.faultOf(one); fault != "" {
				faults = append(faults, fmt.Errorf("%s %s", v.name, fault))
				break
			}
		}
		if s.secret {
			faults = append(faults, c.readSecret(s.name))
		}
	}
	return errors.Join(faults...)
}

// readSecret takes a secret from its file, if one is named.
func (c *config) readSecret(name string) error {
	secret, from := c.values[name], c.values[name+"-file"]
	switch {
	case from.text() == "":
		return nil
	case secret.text() != "":
		return fmt.Errorf("%s and %s both give the %s: leave one out", secret.name, from.name, strings.ReplaceAll(name, "-", " "))
	}
	content, err := os.ReadFile(from.text())
	if err != nil {
		return fmt.Errorf("%s: %w", from.name, err)
	}
	secret.list = []string{strings.TrimSpace(string(content))}
	secret.from = from.from
	if secret.text() == "" {
		return fmt.Errorf("%s: the file is empty", from.name)
	}
	c.values[name] = secret
	return nil
}

// clientToken is what is shown to a server: the token, or else the root token.
func (c *config) clientToken() (string, error) {
	if token := c.text("token"); token != "" {
		return token, nil
	}
	if c.text("root-token") == "" { // and check has read no file of it
		if err := c.readSecret("root-token"); err != nil {
			return "", err
		}
	}
	return c.text("root-token"), nil
}

// The values of settings that check has found to be good.

func (c *config) text(name string) string { return c.values[name].text() }

func (c *config) list(name string) []string { return c.values[name].list }

func (c *config) yes(name string) bool { return c.text(name) == "true" }

// choice is yes, no, or nil if it is left to somebody else.
func (c *config) choice(name string) *bool {
	switch v := c.text(name); v {
	case "true", "false":
		yes := v == "true"
		return &yes
	}
	return nil
}

func (c *config) number(name string) int {
	n, _ := strconv.Atoi(c.text(name))
	return n
}

func (c *config) span(name string) time.Duration {
	d, _ := api.ParseDuration(c.text(name))
	return d
}

// settingFlag is a setting on the command line. What is wrong with its value is
// told together with the faults of the others, by check.
type settingFlag struct {
	setting *setting
	list    []string
	given   bool
}

// settingFlags adds the flags of the settings that a command uses.
func settingFlags(f *pflag.FlagSet, command string) {
	table := settingsTable()
	for i := range table {
		s := &table[i]
		if s.noFlag || (s.commands == everyCommand) != (command == everyCommand) || !s.usedBy(command) {
			continue
		}
		flag := f.VarPF(&settingFlag{setting: s, list: s.split(s.preset)}, s.name, "", s.help)
		flag.NoOptDefVal = s.alone
		if s.kind == yesNo {
			flag.NoOptDefVal = "true"
		}
	}
}

func (f *settingFlag) String() string { return strings.Join(f.list, ",") }

func (f *settingFlag) Type() string {
	if f.setting == nil || f.setting.kind == text {
		return "string"
	}
	return string(f.setting.kind)
}

func (f *settingFlag) Set(v string) error {
	if f.setting.kind != manyText || !f.given {
		f.list = nil
	}
	f.given = true
	f.list = append(f.list, f.setting.split(v)...)
	return nil
}
