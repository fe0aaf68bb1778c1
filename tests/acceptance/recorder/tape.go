package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// call is one that a client made.
type call struct {
	client     string
	connection int
	method     string
	began      time.Time
	took       time.Duration
	// Zero without one.
	deadline       time.Duration
	request, reply []byte
	status         *status.Status
	// answered, deadline or gone; empty while it runs.
	ending string
}

// line is a call as it is written.
type line struct {
	From       string          `json:"from"`
	Connection int             `json:"connection"`
	Method     string          `json:"method"`
	AtMs       int64           `json:"at_ms"`
	TookMs     int64           `json:"took_ms"`
	DeadlineMs int64           `json:"deadline_ms,omitempty"`
	Request    json.RawMessage `json:"request"`
	End        string          `json:"end"`
	Code       string          `json:"code,omitempty"`
	Message    string          `json:"message,omitempty"`
	Reply      json.RawMessage `json:"reply,omitempty"`
}

// tape has the calls in the order in which they began.
type tape struct {
	mutex sync.Mutex
	began time.Time
	calls []call
}

func newTape() *tape { return &tape{began: time.Now()} }

func (t *tape) begin(c call) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.calls = append(t.calls, c)
	return len(t.calls) - 1
}

func (t *tape) end(place int, c call) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.calls[place] = c
}

func (t *tape) write(out, head string) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var text bytes.Buffer
	fmt.Fprintln(&text, head)
	for _, c := range t.calls {
		written, err := c.line(t.began)
		if err != nil {
			return fmt.Errorf("%s: %w", c.method, err)
		}
		text.Write(append(written, '\n'))
	}
	return os.WriteFile(out, []byte(normalised(text.String())), 0o644)
}

func (c *call) line(zero time.Time) ([]byte, error) {
	request, reply, err := messages(c.method)
	if err != nil {
		return nil, err
	}
	l := line{
		From: c.client, Connection: c.connection, Method: path.Base(c.method), End: c.ending,
		AtMs: c.began.Sub(zero).Milliseconds(), TookMs: c.took.Milliseconds(),
	}
	// What was left of a round deadline when the call arrived: the client had set the round one.
	if c.deadline > 0 {
		l.DeadlineMs = c.deadline.Round(100 * time.Millisecond).Milliseconds()
	}
	if l.Request, err = asJSON(c.request, request); err != nil {
		return nil, err
	}
	switch c.ending {
	case "":
		l.End = "running"
	case "answered":
		l.Code = c.status.Code().String()
		l.Message = c.status.Message()
		if c.status.Err() == nil {
			if l.Reply, err = asJSON(c.reply, reply); err != nil {
				return nil, err
			}
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(l); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// messages are empty ones for the request and the reply of a method.
func messages(method string) (request, reply proto.Message, err error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, nil, err
	}
	described := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
	if described == nil {
		return nil, nil, fmt.Errorf("%s has no method %s", service, name)
	}
	in, err := protoregistry.GlobalTypes.FindMessageByName(described.Input().FullName())
	if err != nil {
		return nil, nil, err
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(described.Output().FullName())
	if err != nil {
		return nil, nil, err
	}
	return in.New().Interface(), out.New().Interface(), nil
}

// asJSON is the message with the names of its fields as the protocol has them, secrets blanked.
func asJSON(data []byte, message proto.Message) (json.RawMessage, error) {
	if err := proto.Unmarshal(data, message); err != nil {
		return nil, err
	}
	blankSecrets(message.ProtoReflect())
	written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	// protojson varies its spaces on purpose.
	var compact bytes.Buffer
	if err := json.Compact(&compact, written); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

func blankSecrets(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		options, _ := field.Options().(*descriptorpb.FieldOptions)
		if field.IsMap() && proto.GetExtension(options, csi.E_CsiSecret).(bool) {
			value.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
				value.Map().Set(key, protoreflect.ValueOfString("(secret)"))
				return true
			})
		}
		return true
	})
}
