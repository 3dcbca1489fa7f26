// Asks ext_authz as an Envoy does, with Envoy's own messages: the judge of the fields that we wrote
// down ourselves.
//
//	ext-authz SOCKET OFFER PRINCIPAL ADDRESS [CERTIFICATE-FILE]
//
// Prints one line of JSON: the code, its message, and the HTTP status where it was denied.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("SOCKET OFFER PRINCIPAL ADDRESS [CERTIFICATE-FILE]")
	}
	source := &auth.AttributeContext_Peer{Principal: args[2], Address: address(args[3], 40000)}
	if len(args) > 4 {
		pem, err := os.ReadFile(args[4])
		if err != nil {
			return err
		}
		source.Certificate = url.PathEscape(string(pem))
	}
	connection, err := grpc.NewClient("unix:"+args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := auth.NewAuthorizationClient(connection).Check(ctx, &auth.CheckRequest{
		Attributes: &auth.AttributeContext{
			Source:      source,
			Destination: &auth.AttributeContext_Peer{Address: address("127.0.0.1", 443)},
			Request: &auth.AttributeContext_Request{
				Http: &auth.AttributeContext_HttpRequest{Method: "GET", Path: "/", Host: "db"},
			},
			ContextExtensions: map[string]string{"offer": args[1]},
		},
	})
	if err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{
		"code":       answer.GetStatus().GetCode(),
		"message":    answer.GetStatus().GetMessage(),
		"httpStatus": int32(answer.GetDeniedResponse().GetStatus().GetCode()),
		"body":       answer.GetDeniedResponse().GetBody(),
	})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func address(host string, port uint32) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address:       host,
		PortSpecifier: &core.SocketAddress_PortValue{PortValue: port},
	}}}
}
