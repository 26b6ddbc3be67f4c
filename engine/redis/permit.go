package redis

import (
	"context"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace"
)

// commandCall finds the commands that scripts call with a key.
var commandCall = regexp.MustCompile(`\b(?:call|bulk|gather)\('([A-Z]+)', `)

// checkPermissions refuses a user who may not run all that the scripts do: a
// script that is stopped in its midst would leave half of its work. Without the
// permission for channels there are no hints, which is slow but not wrong.
func (e *Engine) checkPermissions(ctx context.Context) error {
	commands := scriptCommands()
	for _, own := range append([]string{e.keys.control()}, e.own...) {
		reply, err := e.run(ctx, &e.scripts.permit, own, commands...)
		if err != nil {
			return err
		}
		var forbidden []string
		for i := range reply {
			forbidden = append(forbidden, textOf(reply[i]))
		}
		if i := slices.Index(forbidden, "SPUBLISH"); i >= 0 {
			forbidden = slices.Delete(forbidden, i, i+1)
			e.toldChannels.Do(func() {
				e.log.Warn("the Redis user may not use the store's channels: consumers wait longer than they must", "channel", channel(own))
			})
		}
		if len(forbidden) > 0 {
			return millrace.Errorf(millrace.CodeForbidden, "the Redis user may not use %s on the store's keys", strings.Join(forbidden, ", "))
		}
	}
	return nil
}

// scriptCommands are the commands that the scripts call.
func scriptCommands() []string {
	var commands []string
	files, err := fs.Glob(luaFiles, "lua/*.lua")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range files {
		text, err := luaFiles.ReadFile(name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		for _, found := range commandCall.FindAllStringSubmatch(string(text), -1) {
			commands = append(commands, found[1])
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}
