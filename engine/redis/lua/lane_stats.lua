-- Read the lane's counters.
-- Returns version, published, duplicates, unrouted, dropped, clock offset in ms, held events.
if not lane() then return 'lane_missing' end
return {L.version, L.published, L.duplicates, L.unrouted, L.dropped, L.off, call('HLEN', T .. ':held')}
