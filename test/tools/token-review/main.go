// A service that asks for TokenReviews with client-go, as an aggregated API server or a proxy does.
// It reads questions from standard input, one JSON object a line, and prints one answer a line.
//
//	token-review [flags] < questions
//
// A question is {"token": …, "audiences": […], "version": "v1"|"v1beta1", "encoding":
// "json"|"protobuf"}. An answer is {"status": 201, "review": …} or {"status": …, "error": …}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	clientv1beta1 "k8s.io/client-go/kubernetes/typed/authentication/v1beta1"
	"k8s.io/client-go/rest"
)

type question struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences"`
	Version   string   `json:"version"`
	Encoding  string   `json:"encoding"`
}

type answer struct {
	Status int    `json:"status"`
	Review any    `json:"review,omitempty"`
	Error  string `json:"error,omitempty"`
}

var (
	server     = flag.String("server", "", "URL of the server, with the host name that the certificate has")
	address    = flag.String("address", "", "host:port to connect to, whatever the URL says")
	serverName = flag.String("server-name", "", "name in the certificate of the server; default: the host of the URL")
	ca         = flag.String("ca", "", "file with the CA certificates of the server")
	token      = flag.String("token", "", "file with a bearer token of this client")
	cert       = flag.String("cert", "", "file with the client certificate")
	key        = flag.String("key", "", "file with its private key")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		review, err := ask(asked)
		if err := out.Encode(answerOf(review, err)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answerOf(review any, err error) answer {
	if err == nil {
		return answer{Status: 201, Review: review}
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return answer{Status: int(status.Status().Code), Error: status.Status().Message}
	}
	return answer{Error: err.Error()}
}

func ask(asked question) (any, error) {
	config, err := configFor(asked.Encoding)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch asked.Version {
	case "v1":
		client, err := clientv1.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return client.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: asked.Token, Audiences: asked.Audiences},
		}, metav1.CreateOptions{})
	case "v1beta1":
		client, err := clientv1beta1.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return client.TokenReviews().Create(ctx, &authenticationv1beta1.TokenReview{
			Spec: authenticationv1beta1.TokenReviewSpec{Token: asked.Token, Audiences: asked.Audiences},
		}, metav1.CreateOptions{})
	}
	return nil, fmt.Errorf("there is no version %q", asked.Version)
}

func configFor(encoding string) (*rest.Config, error) {
	contentTypes := map[string]rest.ContentConfig{
		"json": {ContentType: "application/json"},
		// Only protobuf is accepted, so that an answer in JSON fails.
		"protobuf": {
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf",
		},
	}
	content, known := contentTypes[encoding]
	if !known {
		return nil, fmt.Errorf("there is no encoding %q", encoding)
	}
	config := &rest.Config{
		Host:            *server,
		ContentConfig:   content,
		BearerTokenFile: *token,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: *ca, ServerName: *serverName, CertFile: *cert, KeyFile: *key,
		},
	}
	if *address != "" {
		config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *address)
		}
	}
	return config, nil
}
