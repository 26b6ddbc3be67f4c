package api

import (
	"bytes"
	"strconv"

	"github.com/millrace-dev/millrace"
)

// LiveType is the content type of a stream of live events: server-sent events.
const LiveType = "text/event-stream"

// What a stream of live events says beside its frames: that the watch stands, and
// that it still does.
const (
	LiveOpen = ": open\n\n"
	LiveBeat = ": beat\n\n"
)

// The names of the frames.
const (
	frameEvent  = "event"
	frameMissed = "missed"
)

// AppendFrame writes an event that went by, or how many were missed, as a frame
// of server-sent events.
func AppendFrame(b []byte, item *millrace.LiveItem) []byte {
	if item.Missed > 0 {
		b = append(b, "event: "+frameMissed+"\ndata: {\"missed\":"...)
		return append(strconv.AppendInt(b, int64(item.Missed), 10), "}\n\n"...)
	}
	b = append(append(b, "id: "...), item.Event.ID...)
	b = append(b, "\nevent: "+frameEvent+"\n"...)
	return append(appendLines(b, AppendEvent(nil, &item.Event)), '\n')
}

// appendLines writes a text as the data of a frame. A publisher's JSON may have line
// breaks between its parts; a frame has them between lines of data.
func appendLines(b, text []byte) []byte {
	for {
		i := bytes.IndexAny(text, "\r\n")
		if i < 0 {
			return append(append(append(b, "data: "...), text...), '\n')
		}
		b = append(append(append(b, "data: "...), text[:i]...), '\n')
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}

// DecodeFrame reads a frame by its name and its data. A frame of another name is
// one that this program does not know: ok is false.
func DecodeFrame(name string, data []byte) (item millrace.LiveItem, ok bool, err error) {
	switch name {
	case frameEvent:
		item.Event, err = DecodeEvent(data)
		return item, true, err
	case frameMissed:
		item.Missed, err = decodeNumber(data, "missed")
		return item, true, err
	}
	return item, false, nil
}
