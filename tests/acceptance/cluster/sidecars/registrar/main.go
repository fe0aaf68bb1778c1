// Announces a CSI driver to the kubelet, with the flags of node-driver-registrar that our chart renders. Replaces the
// official one, which is not a Go module, where its source cannot be fetched.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type announcement struct {
	registration.UnimplementedRegistrationServer
	driver, socket string
}

func (a announcement) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              a.driver,
		Endpoint:          a.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

// The kubelet reports this after it has called the driver's NodeGetInfo. After a failure, a new container tries again.
func (a announcement) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		log.Fatalf("the kubelet refuses %s: %s", a.driver, status.Error)
	}
	log.Printf("the kubelet has registered %s", a.driver)
	return &registration.RegistrationStatusResponse{}, nil
}

func nameOf(socket string) string {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		log.Fatalf("GetPluginInfo on %s: %v", socket, err)
	}
	return info.Name
}

func main() {
	klog.InitFlags(nil) // for --v
	csiAddress := flag.String("csi-address", "/run/csi/socket", "the driver's socket, as this program sees it")
	kubeletPath := flag.String("kubelet-registration-path", "", "the driver's socket, as the kubelet sees it")
	directory := flag.String("plugin-registration-path", "/registration", "where the kubelet looks for sockets like ours")
	health := flag.String("http-endpoint", "", "where /healthz answers")
	flag.Parse()

	driver := nameOf(*csiAddress)
	ours := filepath.Join(*directory, driver+"-reg.sock")
	if err := os.Remove(ours); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", ours)
	if err != nil {
		log.Fatal(err)
	}
	if *health != "" {
		http.HandleFunc("/healthz", func(answer http.ResponseWriter, _ *http.Request) {
			if _, err := os.Stat(ours); err != nil {
				http.Error(answer, err.Error(), http.StatusInternalServerError)
			}
		})
		go func() { log.Fatal(http.ListenAndServe(*health, nil)) }()
	}
	// The kubelet removes the driver when the socket is gone, as with the official registrar.
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stopped
		os.Remove(ours)
		os.Exit(0)
	}()
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, announcement{driver: driver, socket: *kubeletPath})
	log.Fatal(server.Serve(listener))
}
