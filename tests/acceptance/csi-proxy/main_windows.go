// Runs the csi-proxy project's own, unmodified clients against the server of their pipes.
//
//	clients every           every call of every version in the module, one line each: group/version call code text
//	clients churn N         N clients one after the other, each leaving its probe connection behind
//	clients together N      N clients at once
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	diskapi "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	disk "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1"
	diskv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1alpha1"
	diskv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta1"
	diskv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta2"
	diskv1beta3 "github.com/kubernetes-csi/csi-proxy/client/groups/disk/v1beta3"
	filesystem "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
	filesystemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1alpha1"
	filesystemv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta1"
	filesystemv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1beta2"
	filesystemv2alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v2alpha1"
	iscsiv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha1"
	iscsiv1alpha2 "github.com/kubernetes-csi/csi-proxy/client/groups/iscsi/v1alpha2"
	smb "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1"
	smbv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1alpha1"
	smbv1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta1"
	smbv1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/smb/v1beta2"
	systemv1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/system/v1alpha1"
	volume "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1"
	volumev1alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1alpha1"
	volumev1beta1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta1"
	volumev1beta2 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta2"
	volumev1beta3 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v1beta3"
	volumev2alpha1 "github.com/kubernetes-csi/csi-proxy/client/groups/volume/v2alpha1"
	"google.golang.org/grpc/status"
)

// The values of request fields, by field name. Used only if the type fits.
var values = map[string]any{
	"DiskNumber": uint32(1), "DiskId": "1", "DiskID": "1", "IsOnline": true,
	"VolumeId": `\\?\Volume{33333333-3333-3333-3333-333333333333}\`,
	"Path":     `C:\var\lib\kubelet\a`, "TargetPath": `C:\var\lib\kubelet\b`, "SourcePath": `C:\var\lib\kubelet\a`,
	"RemotePath": `\\host\share`, "Force": true, "Name": "spooler", "DiskName": "naa.5000",
}

// The mount point of volumes, by its field name in the different versions.
var volumePaths = map[string]any{
	"Path": mount, "TargetPath": mount, "Mount": mount,
}

const mount = `C:\var\lib\kubelet\mount`

func clients() map[string]func() (any, error) {
	return map[string]func() (any, error){
		"disk/v1alpha1":       func() (any, error) { return diskv1alpha1.NewClient() },
		"disk/v1beta1":        func() (any, error) { return diskv1beta1.NewClient() },
		"disk/v1beta2":        func() (any, error) { return diskv1beta2.NewClient() },
		"disk/v1beta3":        func() (any, error) { return diskv1beta3.NewClient() },
		"disk/v1":             func() (any, error) { return disk.NewClient() },
		"volume/v1alpha1":     func() (any, error) { return volumev1alpha1.NewClient() },
		"volume/v1beta1":      func() (any, error) { return volumev1beta1.NewClient() },
		"volume/v1beta2":      func() (any, error) { return volumev1beta2.NewClient() },
		"volume/v1beta3":      func() (any, error) { return volumev1beta3.NewClient() },
		"volume/v1":           func() (any, error) { return volume.NewClient() },
		"volume/v2alpha1":     func() (any, error) { return volumev2alpha1.NewClient() },
		"filesystem/v1alpha1": func() (any, error) { return filesystemv1alpha1.NewClient() },
		"filesystem/v1beta1":  func() (any, error) { return filesystemv1beta1.NewClient() },
		"filesystem/v1beta2":  func() (any, error) { return filesystemv1beta2.NewClient() },
		"filesystem/v1":       func() (any, error) { return filesystem.NewClient() },
		"filesystem/v2alpha1": func() (any, error) { return filesystemv2alpha1.NewClient() },
		"smb/v1alpha1":        func() (any, error) { return smbv1alpha1.NewClient() },
		"smb/v1beta1":         func() (any, error) { return smbv1beta1.NewClient() },
		"smb/v1beta2":         func() (any, error) { return smbv1beta2.NewClient() },
		"smb/v1":              func() (any, error) { return smb.NewClient() },
		"iscsi/v1alpha1":      func() (any, error) { return iscsiv1alpha1.NewClient() },
		"iscsi/v1alpha2":      func() (any, error) { return iscsiv1alpha2.NewClient() },
		"system/v1alpha1":     func() (any, error) { return systemv1alpha1.NewClient() },
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	number := func() int {
		n, err := strconv.Atoi(os.Args[2])
		check(err)
		return n
	}
	switch os.Args[1] {
	case "every":
		every(ctx)
	case "churn":
		for i, n := 0, number(); i < n; i++ {
			rescan(ctx)
		}
		fmt.Println("done")
	case "together":
		var all sync.WaitGroup
		for i, n := 0, number(); i < n; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				rescan(ctx)
			}()
		}
		all.Wait()
		fmt.Println("done")
	}
}

func rescan(ctx context.Context) {
	client, err := disk.NewClient()
	check(err)
	_, err = client.Rescan(ctx, &diskapi.RescanRequest{})
	check(err)
	check(client.Close())
}

func every(ctx context.Context) {
	all := clients()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		client, err := all[name]()
		if err != nil {
			fmt.Printf("%s NewClient failed %v\n", name, err)
			continue
		}
		value := reflect.ValueOf(client)
		for i := 0; i < value.NumMethod(); i++ {
			method := value.Type().Method(i)
			if method.Type.NumOut() != 2 || method.Type.NumIn() < 3 {
				continue // Close
			}
			request := reflect.New(method.Type.In(2).Elem())
			fill(request.Elem(), strings.HasPrefix(name, "volume/"))
			out := value.Method(i).Call([]reflect.Value{reflect.ValueOf(ctx), request})
			err, _ := out[1].Interface().(error)
			fmt.Printf("%s %s %s %s\n", name, method.Name, status.Code(err), strings.ReplaceAll(status.Convert(err).Message(), "\n", " "))
		}
	}
}

func fill(request reflect.Value, isVolume bool) {
	for i := 0; i < request.NumField(); i++ {
		field := request.Field(i)
		name := request.Type().Field(i).Name
		value, ok := values[name]
		if path, isPath := volumePaths[name]; isPath && isVolume {
			value, ok = path, true
		}
		if ok && reflect.TypeOf(value) == field.Type() {
			field.Set(reflect.ValueOf(value))
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
