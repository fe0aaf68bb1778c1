// Serves /healthz with the result of a CSI driver's Probe, with the flags of livenessprobe that our chart renders. Replaces
// the official one, which is not a Go module, where its source cannot be fetched.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
)

func main() {
	klog.InitFlags(nil) // for --v
	address := flag.String("csi-address", "/run/csi/socket", "the driver's socket")
	timeout := flag.Duration("probe-timeout", time.Second, "how long a Probe may take")
	port := flag.String("health-port", "9808", "port of /healthz")
	metrics := flag.String("metrics-address", "", "accepted; there are none")
	flag.Parse()
	_ = metrics

	connection, err := grpc.NewClient("unix://"+*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	identity := csi.NewIdentityClient(connection)
	http.HandleFunc("/healthz", func(answer http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), *timeout)
		defer cancel()
		response, err := identity.Probe(ctx, &csi.ProbeRequest{})
		switch {
		case err != nil:
			http.Error(answer, err.Error(), http.StatusInternalServerError)
		case response.Ready != nil && !response.Ready.Value:
			http.Error(answer, "the driver is not ready", http.StatusInternalServerError)
		}
	})
	log.Fatal(http.ListenAndServe(":"+*port, nil))
}
