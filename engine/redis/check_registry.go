package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// checkRegistry verifies that every definition is listed under its version, no
// version is used twice or is yet to come, and what is deleted can be told of.
func (e *Engine) checkRegistry(ctx context.Context) ([]string, error) {
	own, b := e.keys.control(), e.client.B()
	version, err := e.client.Do(ctx, b.Hget().Key(own).Field("version").Build()).AsInt64()
	if err != nil {
		return nil, classify(err, false).err
	}
	names, err := e.listed(ctx, own+namesKey)
	if err != nil {
		return nil, err
	}
	deleted, err := e.listed(ctx, own+deletedKey)
	if err != nil {
		return nil, err
	}
	traces, err := e.client.Do(ctx, b.Hkeys().Key(own+tracesKey).Build()).AsStrSlice()
	if err != nil {
		return nil, classify(err, false).err
	}
	faults := versionFaults(version, slices.Concat(names, deleted))
	for _, z := range names {
		got, err := e.client.Do(ctx, b.Hget().Key(own+nameKey+z.Member).Field("version").Build()).ToString()
		if err != nil || got != strconv.FormatFloat(z.Score, 'f', 0, 64) {
			faults = append(faults, fmt.Sprintf("definition %s has version %q, listed as %.0f", z.Member, got, z.Score))
		}
	}
	for _, z := range deleted {
		if !slices.Contains(traces, z.Member) {
			faults = append(faults, "a deleted definition left no trace")
		}
	}
	if len(traces) != len(deleted) {
		faults = append(faults, fmt.Sprintf("%d traces of %d deleted definitions", len(traces), len(deleted)))
	}
	return faults, nil
}

func (e *Engine) listed(ctx context.Context, key string) ([]rueidis.ZScore, error) {
	list, err := e.client.Do(ctx, e.client.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		return nil, classify(err, false).err
	}
	return list, nil
}

func versionFaults(version int64, listed []rueidis.ZScore) (faults []string) {
	seen := map[float64]string{}
	for _, z := range listed {
		if z.Score > float64(version) {
			faults = append(faults, fmt.Sprintf("%s has version %.0f, the registry %d", z.Member, z.Score, version))
		}
		if other, twice := seen[z.Score]; twice {
			faults = append(faults, fmt.Sprintf("%s and %s have version %.0f", other, z.Member, z.Score))
		}
		seen[z.Score] = z.Member
	}
	return faults
}
