package main

import (
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/millrace-dev/millrace"
)

// request is what a click asks for.
type request struct {
	Link string `json:"link"`
}

//go:embed page.html
var pageHTML string

// page shows links with their history, and takes clicks.
type page struct {
	operations millrace.OperationService
	look       *template.Template
}

// newPage is the page as a handler.
func newPage(operations millrace.OperationService) http.Handler {
	p := &page{operations: operations, look: template.Must(template.New("page").Parse(pageHTML))}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/links/docs", http.StatusSeeOther) })
	mux.HandleFunc("GET /links/{link}", p.show)
	mux.HandleFunc("POST /links/{link}/sync", p.sync)
	mux.HandleFunc("POST /links/{link}/cancel/{id}", p.cancel)
	return http.NewCrossOriginProtection().Handler(mux)
}

// sync is the button. While a sync of the link is open, a second click finds that one.
func (p *page) sync(w http.ResponseWriter, r *http.Request) {
	link := r.PathValue("link")
	payload, err := json.Marshal(request{Link: link})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, err = p.operations.Start(r.Context(), millrace.OperationRequest{
		Queue: queue, Type: "MANUAL", Subject: subject(link), Payload: payload, DedupeKey: "sync",
	})
	p.back(w, r, err)
}

func (p *page) cancel(w http.ResponseWriter, r *http.Request) {
	_, err := p.operations.Cancel(r.Context(), r.PathValue("id"))
	if millrace.CodeOf(err) == millrace.CodeFinished {
		err = nil // the page shows how it has ended
	}
	p.back(w, r, err)
}

// back answers a click with the link's page.
func (p *page) back(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	http.Redirect(w, r, (&url.URL{Path: "/links/" + r.PathValue("link")}).String(), http.StatusSeeOther)
}

// view is what the page shows of a link.
type view struct {
	Link    string
	Links   []string
	History []millrace.TrackedOperation // newest first
	Ended   int64                       // of all links, in the last hour
	Errors  int64                       // of these
}

// ErrorRate is how many of a hundred syncs failed.
func (v view) ErrorRate() int64 {
	if v.Ended == 0 {
		return 0
	}
	return (100*v.Errors + v.Ended/2) / v.Ended
}

func (p *page) show(w http.ResponseWriter, r *http.Request) {
	v, err := p.view(r.Context(), r.PathValue("link"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = p.look.Execute(w, v) // whoever asked is gone
}

func (p *page) view(ctx context.Context, link string) (view, error) {
	v := view{Link: link, Links: []string{"docs", "website", "broken"}}
	var err error
	v.History, _, err = p.operations.List(ctx, millrace.OperationQuery{
		Subject: subject(link), Tenant: millrace.DefaultTenant, Page: millrace.Page{Limit: 20},
	})
	if err != nil {
		return v, err
	}
	counts, err := p.operations.Counts(ctx, millrace.OperationCountQuery{Queue: queue})
	for _, c := range counts.Counts {
		v.Ended += c.Success + c.Error
		v.Errors += c.Error
	}
	return v, err
}

// subject is what the operations of a link are about.
func subject(link string) string { return "link:" + link }
