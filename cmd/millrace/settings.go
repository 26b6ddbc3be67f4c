package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/engine"
)

// kind is what the value of a setting looks like.
type kind string

const (
	text     kind = "text"
	number   kind = "number"
	span     kind = "duration"
	yesNo    kind = "bool"
	manyText kind = "list"
)

// everyCommand stands for all commands among those that use a setting.
const everyCommand = "every"

// setting is one thing that can be set: as a key of the file, as MILLRACE_NAME
// and as --name. Flags, variables, keys, `config print` and docs/settings.md all
// follow from the table of them.
type setting struct {
	name     string
	kind     kind
	preset   string // its value if nothing sets it
	alone    string // its value if its flag stands alone
	help     string
	commands string              // which commands use it, separated by spaces
	secret   bool                // never shown; NAME-file names a file that holds it
	noFlag   bool                // a command line is shown to everybody on the machine
	fault    func(string) string // what is wrong with a value, or ""
}

// settingsTable is every setting there is.
func settingsTable() []setting {
	var all []setting
	for _, s := range slices.Concat(generalSettings(), storeSettings(), serverSettings()) {
		all = append(all, s)
		if s.secret {
			all = append(all, setting{name: s.name + "-file", kind: text, commands: s.commands, help: "file that holds the " + strings.ReplaceAll(s.name, "-", " ")})
		}
	}
	return all
}

// generalSettings are those of every command.
func generalSettings() []setting {
	return []setting{
		{name: "config", kind: text, commands: everyCommand, help: "file of settings, in YAML"},
		{name: "server", kind: text, preset: "http://127.0.0.1:7070", commands: everyCommand, help: "address of the server"},
		{name: "token", kind: text, commands: everyCommand, secret: true, help: "token for the server"},
		{name: "json", kind: yesNo, preset: "false", commands: everyCommand, help: "print JSON, for machines"},
	}
}

// storeSettings say which store is meant.
func storeSettings() []setting {
	return []setting{
		{
			name: "store", kind: text, preset: "embedded:./millrace-data", commands: "serve doctor check", fault: storeFault,
			help: "embedded:DIR, memory:, redis://HOST:PORT, redis-sentinel://…, redis-cluster://…",
		},
		{name: "lanes", kind: number, preset: "0", commands: "serve", fault: lanesFault, help: "lanes of a store that is created; 0 for the engine's default"},
		{name: "namespace", kind: text, preset: millrace.DefaultNamespace, commands: "serve doctor check", fault: millrace.NameFault, help: "prefix of every key and channel"},
		{name: "sync", kind: text, preset: "always", commands: "serve", fault: oneOf("always", "interval"), help: "always: answers wait for the disk; interval: the disk follows within 100 ms"},
		{name: "wait-replicas", kind: number, preset: "0", commands: "serve doctor", help: "Redis replicas that must have a commit before it is answered"},
		{
			name: "redis-publish", kind: text, preset: "auto", alone: "true", commands: "serve", fault: oneOf("true", "false", "auto"),
			help: "on Redis, PUBLISH each event's JSON for any client of it: true, false, or auto (not on a Cluster)",
		},
	}
}

// serverSettings are those of the server.
func serverSettings() []setting {
	return []setting{
		{name: "listen", kind: text, preset: "127.0.0.1:7070", commands: "serve doctor", fault: listenFault, help: "address to listen on"},
		{name: "roles", kind: manyText, commands: "serve", fault: oneOf(broker.RoleWeb, broker.RoleDeliver, broker.RoleMonitor), help: "web, deliver, monitor; all of them if empty"},
		{name: "root-token", kind: text, commands: "serve doctor", secret: true, noFlag: true, help: "token of whoever may do everything; without one the server listens on loopback addresses only"},
		{name: "allow-callbacks-to", kind: manyText, commands: "serve", fault: networkFault, help: "network, as in 10.0.0.0/8, to which callbacks may go although it is not public; may be repeated"},
		{name: "max-bytes", kind: number, preset: "0", commands: "serve", help: "bytes that the store may have; 0 for a Redis' own maxmemory, if it has one, else no bound"},
		{name: "high-water", kind: number, preset: "85", commands: "serve", fault: percentFault, help: "percent of the bound above which the oldest batches of subscriptions are dropped"},
		{name: "low-water", kind: number, preset: "75", commands: "serve", fault: percentFault, help: "percent of the bound down to which they are dropped; less than high-water"},
		{name: "tls-cert", kind: text, commands: "serve", help: "certificate file, for HTTPS"},
		{name: "tls-key", kind: text, commands: "serve", help: "key file of the certificate"},
		{name: "drain", kind: span, preset: "25s", commands: "serve", help: "how long requests may take to finish after SIGTERM"},
		{name: "metrics-log", kind: span, preset: "0s", commands: "serve", help: "how often a line of numbers is logged, such as 10s; 0s for never"},
		{name: "otlp-endpoint", kind: text, commands: "serve", help: "OpenTelemetry collector for metrics and traces, such as http://127.0.0.1:4318; else OTEL_EXPORTER_OTLP_ENDPOINT"},
		{name: "log-level", kind: text, preset: "info", commands: "serve", fault: levelFault, help: "debug, info, warn or error"},
	}
}

// variable is the setting's name in the environment.
func (s *setting) variable() string {
	return "MILLRACE_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// usedBy reports whether a command uses the setting.
func (s *setting) usedBy(command string) bool {
	return s.commands == everyCommand || slices.Contains(strings.Fields(s.commands), command)
}

// faultOf says what is wrong with a value, or "".
func (s *setting) faultOf(value string) string {
	switch n, err := strconv.Atoi(value); {
	case s.kind == number && err != nil:
		return "must be a whole number"
	case s.kind == number && n < 0:
		return "must not be negative"
	}
	if _, ok := api.ParseDuration(value); s.kind == span && !ok {
		return "must be a duration such as 1m30s, and not negative"
	}
	if s.kind == yesNo && value != "true" && value != "false" {
		return "must be true or false"
	}
	if s.fault != nil {
		return s.fault(value)
	}
	return ""
}

func oneOf(words ...string) func(string) string {
	return func(value string) string {
		if slices.Contains(words, value) {
			return ""
		}
		return "must be " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
	}
}

func storeFault(value string) string {
	err := engine.CheckURL(value)
	if err == nil {
		return ""
	}
	var e *millrace.Error
	if errors.As(err, &e) {
		return "is not a store: " + e.Detail
	}
	return "is not a store: " + err.Error()
}

func percentFault(value string) string {
	if n, _ := strconv.Atoi(value); n < 1 || n > 100 {
		return "must be between 1 and 100"
	}
	return ""
}

func lanesFault(value string) string {
	if n, _ := strconv.Atoi(value); n != 0 && !millrace.ValidLanes(n) {
		return fmt.Sprintf("must be a power of two up to %d", millrace.MaxLanes)
	}
	return ""
}

func listenFault(value string) string {
	_, port, err := net.SplitHostPort(value)
	if n, numErr := strconv.Atoi(port); err != nil || numErr != nil || n < 0 || n > 65535 {
		return "must be HOST:PORT, as in 127.0.0.1:7070"
	}
	return ""
}

func networkFault(value string) string {
	if _, err := netip.ParsePrefix(value); err != nil {
		return "must be a network, as in 10.0.0.0/8"
	}
	return ""
}

func levelFault(value string) string {
	var level slog.Level
	if level.UnmarshalText([]byte(value)) != nil {
		return "must be debug, info, warn or error"
	}
	return ""
}
