package embedded

// retire prepares the removal of a tracked queue: what runs says so itself from now on, and what was counted goes.
// Its operations that are open stay so until they are swept or cancelled.
func (l *lane) retire(g *group, q *queue) {
	l.retired[q.uid] = q.settings.Retention
	w := settling{lane: l, queue: q, group: g}
	for seq, h := range q.out {
		if h.state != stateLeased {
			continue
		}
		number, _, s, err := w.operationOf(h.entry(seq), h)
		if err != nil {
			l.engine.fail(err)
			return
		}
		l.writeState(g, number, &s)
	}
	g.key = queueKey(g.key[:0], kindTally, l.no, q.uid)
	g.del()
	prefix := queueKey(nil, kindCount, l.no, q.uid)
	g.delRange(prefix, after(prefix))
}

// sweepOperations cancels the operations of messages of a removed queue, if it was tracked.
func (l *lane) sweepOperations(g *group, u uid, list []swept) error {
	if _, tracked := l.retired[u]; !tracked {
		return nil
	}
	for i := range list {
		if list[i].key[0] == kindDead {
			continue // its operation has finished
		}
		if err := l.sweepOperation(g, u, list[i].entry); err != nil {
			return err
		}
	}
	return nil
}

// sweepOperation cancels the operation of a message that is swept, unless it was cancelled before.
func (l *lane) sweepOperation(g *group, u uid, e entry) error {
	key := queueSeqKey(nil, kindCancelled, l.no, u, e.seq)
	mark, err := l.overlay.get(key)
	if err != nil {
		return err
	}
	if mark != nil {
		g.key = append(g.key[:0], key...)
		g.del()
		return nil
	}
	x := ended{uid: u, name: e.seq, number: e.seq, status: statusCancelled, now: l.meta.t}
	if e.mark&markTicket != 0 {
		if x.ticket, err = l.ticketOf(u, e.seq); err != nil {
			return err
		}
		if x.ticket == nil {
			return nil // it was cancelled after the queue's removal
		}
		x.number = x.ticket.number
	}
	o, err := l.operationRecord(x.number)
	if err != nil || o == nil {
		return err // it was cancelled after the queue's removal, and is forgotten
	}
	s, err := l.state(x.number)
	if err != nil || s.ended() {
		return err
	}
	x.state = &s
	l.finish(g, &x)
	return nil
}
