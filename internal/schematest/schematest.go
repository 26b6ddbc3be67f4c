// Package schematest makes JSON schemas stricter than they are for readers: tests
// compare with them exactly.
package schematest

// CloseObjects makes every object of a document of schemas refuse members that it does
// not name. A client should bear them; our own answers must not have any.
func CloseObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			CloseObjects(member)
		}
		_, named := v["properties"]
		if _, said := v["additionalProperties"]; v["type"] == "object" && named && !said {
			v["additionalProperties"] = false
		}
	case []any:
		for _, element := range v {
			CloseObjects(element)
		}
	}
}
