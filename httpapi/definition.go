package httpapi

import (
	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/api"
)

// definitions is everything that is defined, as one document.
func (s *server) definitions(c *call) (answer, error) {
	if err := c.check(); err != nil {
		return answer{}, err
	}
	doc, err := s.backend.Definitions(c.Context())
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendDocument(nil, &doc))
}

// putDefinitions applies a document of definitions.
func (s *server) putDefinitions(c *call) (answer, error) {
	prune, pruneErr := c.flag("prune")
	dryRun, dryErr := c.flag("dry_run")
	doc, err := api.DecodeDocument(c.body)
	if err := c.check(pruneErr, dryErr, err); err != nil {
		return answer{}, err
	}
	applied, err := s.backend.Apply(c.Context(), doc, millrace.ApplyOptions{Prune: prune, DryRun: dryRun})
	if err != nil {
		return answer{}, err
	}
	return ok(api.AppendApplied(nil, &applied))
}
