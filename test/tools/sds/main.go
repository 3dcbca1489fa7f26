// Asks for secrets as an Envoy does, with Envoy's own messages and the validation rules that Envoy
// itself applies to them: the judge of the fields that we wrote down ourselves.
//
//	sds stream SOCKET NAME...   every response until it is ended; reads commands from standard input:
//	                            "names NAME..." asks for others, "nack" rejects the next response,
//	                            "stale" answers a response that is no longer the last
//	sds delta SOCKET NAME...    the same in the dialect of changes; "subscribe NAME...", "unsubscribe NAME..."
//	sds fetch SOCKET NAME...    one response
//	sds reflect SOCKET          asks what is served there, and prints the methods of every service
//	sds config FILE             reads the configuration of an Envoy, and prints the names of the secrets in it
//
// Prints one line of JSON for each response: its version, nonce, and what its secrets say.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	// What the configuration names by type.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	transport "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secret "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	status "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

const secretType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

var node = &core.Node{
	Id:                   "judge",
	Cluster:              "test",
	UserAgentName:        "envoy",
	UserAgentVersionType: &core.Node_UserAgentVersion{UserAgentVersion: "1.36.0"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		code := grpcstatus.Code(err)
		line, _ := json.Marshal(map[string]any{"code": code.String(), "error": err.Error()})
		fmt.Println(string(line))
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("stream|delta|fetch SOCKET NAME..., or config FILE")
	}
	if args[0] == "config" {
		return config(args[1])
	}
	connection, err := grpc.NewClient("unix:"+args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := secret.NewSecretDiscoveryServiceClient(connection)
	names := args[2:]
	switch args[0] {
	case "stream":
		return stream(client, names)
	case "delta":
		return delta(client, names)
	case "reflect":
		return reflect(connection)
	case "fetch":
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		response, err := client.FetchSecrets(ctx, &discovery.DiscoveryRequest{Node: node, ResourceNames: names, TypeUrl: secretType})
		if err != nil {
			return err
		}
		return printState(response)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func reflect(connection *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	call, err := reflection.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return err
	}
	ask := func(request *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
		if err := call.Send(request); err != nil {
			return nil, err
		}
		return call.Recv()
	}
	listed, err := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return err
	}
	methods := []string{}
	for _, service := range listed.GetListServicesResponse().GetService() {
		found, err := ask(&reflection.ServerReflectionRequest{
			MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.Name},
		})
		if err != nil {
			return err
		}
		set := &descriptorpb.FileDescriptorSet{}
		for _, bytes := range found.GetFileDescriptorResponse().GetFileDescriptorProto() {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(bytes, file); err != nil {
				return err
			}
			set.File = append(set.File, file)
		}
		files, err := protodesc.NewFiles(set)
		if err != nil {
			return err
		}
		descriptor, err := files.FindDescriptorByName(protoreflect.FullName(service.Name))
		if err != nil {
			return err
		}
		declared := descriptor.(protoreflect.ServiceDescriptor).Methods()
		for at := range declared.Len() {
			methods = append(methods, string(declared.Get(at).FullName()))
		}
	}
	return printLine(map[string]any{"methods": methods})
}

// Every field must be known and valid, also those of the extensions.
func config(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	var found bootstrap.Bootstrap
	if err := protojson.Unmarshal(document, &found); err != nil {
		return err
	}
	if err := found.ValidateAll(); err != nil {
		return err
	}
	names := map[string]bool{}
	err = protorange.Range(found.ProtoReflect(), func(at protopath.Values) error {
		message, ok := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		switch value := message.Interface().(type) {
		case interface{ ValidateAll() error }:
			if wanted, ok := value.(*transport.SdsSecretConfig); ok {
				names[wanted.Name] = true
			}
			return value.ValidateAll()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printLine(map[string]any{"names": slices.Sorted(maps.Keys(names))})
}

// What a command changes while responses are read.
type wishes struct {
	sync.Mutex
	names []string
	nack  bool
	stale bool
}

func commands(handle func(verb string, rest []string)) {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 1<<20)
	for scanner.Scan() {
		words := strings.Fields(scanner.Text())
		if len(words) > 0 {
			handle(words[0], words[1:])
		}
	}
}

func stream(client secret.SecretDiscoveryServiceClient, names []string) error {
	call, err := client.StreamSecrets(context.Background())
	if err != nil {
		return err
	}
	if err := call.Send(&discovery.DiscoveryRequest{Node: node, ResourceNames: names, TypeUrl: secretType}); err != nil {
		return err
	}
	wish := &wishes{names: names}
	version, nonce := "", ""
	go commands(func(verb string, rest []string) {
		wish.Lock()
		defer wish.Unlock()
		switch verb {
		case "names":
			wish.names = rest
			call.Send(&discovery.DiscoveryRequest{ResourceNames: rest, TypeUrl: secretType, VersionInfo: version, ResponseNonce: nonce})
		case "nack":
			wish.nack = true
		case "stale":
			call.Send(&discovery.DiscoveryRequest{ResourceNames: []string{"stale"}, TypeUrl: secretType, VersionInfo: version, ResponseNonce: "long ago"})
		}
	})
	for {
		response, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := printState(response); err != nil {
			return err
		}
		wish.Lock()
		nonce = response.Nonce
		answer := &discovery.DiscoveryRequest{ResourceNames: wish.names, TypeUrl: secretType, ResponseNonce: nonce}
		if wish.nack {
			wish.nack = false
			answer.ErrorDetail = &status.Status{Code: 3, Message: "the judge does not like it"}
		} else {
			version = response.VersionInfo
		}
		answer.VersionInfo = version
		err = call.Send(answer)
		wish.Unlock()
		if err != nil {
			return err
		}
	}
}

func delta(client secret.SecretDiscoveryServiceClient, names []string) error {
	call, err := client.DeltaSecrets(context.Background())
	if err != nil {
		return err
	}
	if err := call.Send(&discovery.DeltaDiscoveryRequest{Node: node, ResourceNamesSubscribe: names, TypeUrl: secretType}); err != nil {
		return err
	}
	var lock sync.Mutex
	go commands(func(verb string, rest []string) {
		lock.Lock()
		defer lock.Unlock()
		switch verb {
		case "subscribe":
			call.Send(&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: rest, TypeUrl: secretType})
		case "unsubscribe":
			call.Send(&discovery.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: rest, TypeUrl: secretType})
		}
	})
	for {
		response, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if response.TypeUrl != secretType {
			return fmt.Errorf("type %q", response.TypeUrl)
		}
		secrets := make([]map[string]any, 0, len(response.Resources))
		for _, resource := range response.Resources {
			shown, err := describe(resource.Resource)
			if err != nil {
				return err
			}
			if shown["name"] != resource.Name || resource.Version == "" {
				return fmt.Errorf("resource %q, version %q, is called %v", resource.Name, resource.Version, shown["name"])
			}
			secrets = append(secrets, shown)
		}
		if err := printLine(map[string]any{
			"version": response.SystemVersionInfo, "nonce": response.Nonce, "secrets": secrets, "removed": response.RemovedResources,
		}); err != nil {
			return err
		}
		lock.Lock()
		err = call.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: secretType, ResponseNonce: response.Nonce})
		lock.Unlock()
		if err != nil {
			return err
		}
	}
}

func printState(response *discovery.DiscoveryResponse) error {
	if response.TypeUrl != secretType {
		return fmt.Errorf("type %q", response.TypeUrl)
	}
	secrets := make([]map[string]any, 0, len(response.Resources))
	for _, resource := range response.Resources {
		shown, err := describe(resource)
		if err != nil {
			return err
		}
		secrets = append(secrets, shown)
	}
	return printLine(map[string]any{"version": response.VersionInfo, "nonce": response.Nonce, "secrets": secrets})
}

func printLine(value map[string]any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func describe(resource *anypb.Any) (map[string]any, error) {
	var found transport.Secret
	if err := resource.UnmarshalTo(&found); err != nil {
		return nil, err
	}
	if err := found.ValidateAll(); err != nil {
		return nil, err
	}
	shown := map[string]any{"name": found.Name}
	switch kind := found.Type.(type) {
	case *transport.Secret_TlsCertificate:
		pair, err := tls.X509KeyPair(
			kind.TlsCertificate.GetCertificateChain().GetInlineBytes(),
			kind.TlsCertificate.GetPrivateKey().GetInlineBytes(),
		)
		if err != nil {
			return nil, err
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			return nil, err
		}
		shown["uri"] = leaf.URIs[0].String()
		shown["serial"] = leaf.SerialNumber.Text(16)
	case *transport.Secret_ValidationContext:
		context := kind.ValidationContext
		if context.GetTrustedCa() != nil {
			return nil, fmt.Errorf("%s has authorities without a trust domain", found.Name)
		}
		validator := context.GetCustomValidatorConfig()
		if validator.GetName() != "envoy.tls.cert_validator.spiffe" {
			return nil, fmt.Errorf("%s is verified by %q", found.Name, validator.GetName())
		}
		var config transport.SPIFFECertValidatorConfig
		if err := validator.GetTypedConfig().UnmarshalTo(&config); err != nil {
			return nil, err
		}
		if err := config.ValidateAll(); err != nil {
			return nil, err
		}
		authorities := map[string]int{}
		for _, domain := range config.TrustDomains {
			count, err := countCertificates(domain.GetTrustBundle().GetInlineBytes())
			if err != nil {
				return nil, err
			}
			authorities[domain.Name] = count
		}
		shown["authorities"] = authorities
		matchers := []string{}
		for _, matcher := range context.GetMatchTypedSubjectAltNames() {
			if matcher.SanType != transport.SubjectAltNameMatcher_URI {
				return nil, fmt.Errorf("a matcher of %s", matcher.SanType)
			}
			if prefix := matcher.GetMatcher().GetPrefix(); prefix != "" {
				matchers = append(matchers, prefix+"*")
			} else {
				matchers = append(matchers, matcher.GetMatcher().GetExact())
			}
		}
		shown["matchers"] = matchers
	default:
		return nil, fmt.Errorf("%s is of an unexpected kind", found.Name)
	}
	return shown, nil
}

func countCertificates(text []byte) (int, error) {
	count := 0
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			return count, nil
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return 0, err
		}
		count++
	}
}
