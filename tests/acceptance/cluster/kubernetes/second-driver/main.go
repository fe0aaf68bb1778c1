// A second CSI driver for the cluster of `make e2e`: the mock driver of Kubernetes' own tests, served on a socket. Its
// volumes are directories, which it attaches in memory.
package main

import (
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	socket := flag.String("socket", "/csi/csi.sock", "path of the socket")
	name := flag.String("name", "second.csi.example.com", "name of the driver")
	limit := flag.Int64("attach-limit", 3, "volumes that one node can attach")
	flag.Parse()
	if err := os.Remove(*socket); err != nil && !os.IsNotExist(err) {
		log.Fatalf("remove %s: %v", *socket, err)
	}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		log.Fatalf("listen on %s: %v", *socket, err)
	}
	mock := service.New(service.Config{DriverName: *name, AttachLimit: *limit, PermissiveTargetPath: true})
	server := grpc.NewServer()
	csi.RegisterControllerServer(server, mock)
	csi.RegisterIdentityServer(server, mock)
	csi.RegisterNodeServer(server, mock)
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stopped
		server.GracefulStop()
	}()
	if err := server.Serve(listener); err != nil {
		log.Fatalf("serve %s: %v", *name, err)
	}
}
