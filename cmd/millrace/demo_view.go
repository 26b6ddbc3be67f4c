package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/millrace-dev/millrace"
)

// picture is the demo at one moment.
type picture struct {
	url    string
	storm  bool
	weight int
	rows   []pictureRow
	turns  []string
}

// pictureRow is one tenant in the picture.
type pictureRow struct {
	tenant   string
	waiting  int64
	served   int
	p50, p99 time.Duration
}

// look takes a picture.
func (s *stage) look(ctx context.Context) picture {
	waiting := map[string]int64{}
	tenants, _, _ := s.b.Queues().Tenants(ctx, demoQueue, millrace.Page{Limit: millrace.MaxPage})
	for _, t := range tenants {
		waiting[t.Name] = t.Ready
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := picture{url: s.url, storm: s.storm, weight: s.weight, turns: slices.Clone(s.turns)}
	for _, name := range demoTenants() {
		a := s.actors[name]
		p.rows = append(p.rows, pictureRow{name, waiting[name], a.served, quantile(a.waits, 50), quantile(a.waits, 99)})
	}
	return p
}

func quantile(list []time.Duration, percent int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[(len(sorted)-1)*percent/100]
}

// render writes the picture, with bars that fit into so many columns.
func (p *picture) render(columns int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d tenants share one queue and %d workers, %s a message. Served in strict turn:\n\n", len(p.rows), demoWorkers, demoWork)
	room := max(10, columns-48)
	most := int64(1)
	for _, r := range p.rows {
		most = max(most, r.waiting)
	}
	fmt.Fprintf(&out, "%-8s%8s %-*s%9s%9s%9s\n", "TENANT", "WAITING", room, "", "SERVED", "P50 WAIT", "P99 WAIT")
	for _, r := range p.rows {
		fmt.Fprintf(&out, "%-8s%8d %-*s%9d%9s%9s\n", r.tenant, r.waiting, room, bar(r.waiting, most, room), r.served, brief(r.p50), brief(r.p99))
	}
	fmt.Fprintf(&out, "\nlast turns: %s\n", initials(p.turns, columns-12))
	fmt.Fprintf(&out, "the noisy one: storm %s, weight %d\n", onOff(p.storm), p.weight)
	return out.String()
}

// bar is as long as its share of the room; nothing waiting is no bar.
func bar(n, most int64, room int) string {
	if n == 0 {
		return ""
	}
	return strings.Repeat("#", max(1, int(n*int64(room)/most)))
}

// brief is a duration in a few characters.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// initials shows whose turns the last ones were; the noisy tenant's stand out.
func initials(turns []string, room int) string {
	var out strings.Builder
	for _, t := range last(turns, room) {
		if t == demoNoisy {
			out.WriteByte('N')
		} else {
			out.WriteByte(t[0])
		}
	}
	return out.String()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// demoView is the picture on a terminal.
type demoView struct {
	ctx     context.Context // Update is called without one
	stage   *stage
	picture picture
	columns int
}

type lookAgain struct{}

func drawDemo(ctx context.Context, s *stage, in io.Reader, out *os.File) error {
	program := tea.NewProgram(&demoView{ctx: ctx, stage: s, columns: 80, picture: s.look(ctx)}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	_, err := program.Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Init asks for the first look.
func (v *demoView) Init() tea.Cmd { return soon() }

func soon() tea.Cmd {
	return tea.Tick(200*time.Millisecond, func(time.Time) tea.Msg { return lookAgain{} })
}

// Update looks again, or does what a key asks for.
func (v *demoView) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case lookAgain:
		v.picture = v.stage.look(v.ctx)
		return v, soon()
	case tea.WindowSizeMsg:
		v.columns = m.Width
	case tea.KeyPressMsg:
		return v, v.key(m.String())
	}
	return v, nil
}

func (v *demoView) key(name string) tea.Cmd {
	switch name {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "s", "space":
		v.stage.toggle()
	case "w":
		v.stage.weigh(v.ctx, nextWeight(v.picture.weight))
	case "p":
		v.stage.weigh(v.ctx, 1-min(1, v.picture.weight))
	}
	return nil
}

// nextWeight doubles up to 8, then begins again.
func nextWeight(w int) int {
	if w < 1 || w >= 8 {
		return 1
	}
	return 2 * w
}

// View is the picture and what a person can do.
func (v *demoView) View() tea.View {
	view := tea.NewView(v.picture.render(v.columns) +
		"\ns storm on or off   w the noisy one's weight   p pause it   q quit\n" +
		"Look around: millrace queue show " + demoQueue + " --server " + v.picture.url + "\n")
	view.AltScreen = true
	return view
}
