// Otlp-receiver takes traces as an OTLP collector does and writes down what it took: one JSON object a line, with the headers of the
// request, the resource and its spans. Its first line says where it listens.
package main

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
)

type receiver struct {
	collector.UnimplementedTraceServiceServer
	hang  bool
	lines sync.Mutex
}

// What came in one message, from one resource.
type message struct {
	Headers  metadata.MD       `json:"headers"`
	Resource map[string]string `json:"resource"`
	Spans    []span            `json:"spans"`
}

type span struct {
	Name       string            `json:"name"`
	Kind       string            `json:"kind"`
	Trace      string            `json:"trace"`
	ID         string            `json:"id"`
	Parent     string            `json:"parent"`
	State      string            `json:"state"`
	Attributes map[string]string `json:"attributes"`
	Failed     bool              `json:"failed"`
	Message    string            `json:"message"`
	Nanos      uint64            `json:"nanos"`
}

func (r *receiver) Export(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if r.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	r.lines.Lock()
	defer r.lines.Unlock()
	for _, from := range request.ResourceSpans {
		message := message{Headers: headers, Resource: values(from.Resource.Attributes)}
		for _, scope := range from.ScopeSpans {
			for _, given := range scope.Spans {
				message.Spans = append(message.Spans, read(given))
			}
		}
		line, err := json.Marshal(message)
		if err != nil {
			return nil, err
		}
		fmt.Println(string(line))
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func read(given *traces.Span) span {
	return span{
		Name:       given.Name,
		Kind:       given.Kind.String(),
		Trace:      hex.EncodeToString(given.TraceId),
		ID:         hex.EncodeToString(given.SpanId),
		Parent:     hex.EncodeToString(given.ParentSpanId),
		State:      given.TraceState,
		Attributes: values(given.Attributes),
		Failed:     given.Status.GetCode() == traces.Status_STATUS_CODE_ERROR,
		Message:    given.Status.GetMessage(),
		Nanos:      given.EndTimeUnixNano - given.StartTimeUnixNano,
	}
}

// Values of whatever type, as text.
func values(attributes []*common.KeyValue) map[string]string {
	read := map[string]string{}
	for _, attribute := range attributes {
		switch value := attribute.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			read[attribute.Key] = value.StringValue
		case *common.AnyValue_IntValue:
			read[attribute.Key] = fmt.Sprint(value.IntValue)
		case *common.AnyValue_BoolValue:
			read[attribute.Key] = fmt.Sprint(value.BoolValue)
		default:
			read[attribute.Key] = attribute.Value.String()
		}
	}
	return read
}

func main() {
	log.SetFlags(0)
	hang := flag.Bool("hang", false, "take messages and never answer")
	certificate := flag.String("cert", "", "serve over TLS with this certificate")
	key := flag.String("key", "", "its key")
	flag.Parse()
	var options []grpc.ServerOption
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, &receiver{hang: *hang})
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
