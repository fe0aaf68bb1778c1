// Build with -tags before_newclient
module ebs-csi-clients

go 1.25.0

require google.golang.org/grpc v1.29.1

require (
	github.com/golang/protobuf v1.3.3 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.38.0 // indirect
	google.golang.org/genproto v0.0.0-20190819201941-24fa4b261c55 // indirect
)
