// Asks for X.509-SVIDs by certificate signing request, as fast as the other side answers: the load
// of bench/mint.ts, and the judge of what is served on the admin socket. A site and a SPIRE server
// are asked by the same code; messages are written by hand, so that neither costs the client more.
//
//	mint -socket PATH -api hansa|spire -trust-domain NAME [-callers 16] [-seconds 5] [-stream]
//	     [-fetch URL -sites 50 -every 1s]
//
// With -fetch, so many sites meanwhile fetch the bundle at the URL, all in the same moment and each
// over a new connection, as often as -every says.
//
// Prints one line of JSON: how many were issued, in how many seconds, and the times of single calls
// in milliseconds. Every hundredth answer is verified to certify the key that was sent.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	spireMint   = "/spire.api.server.svid.v1.SVID/MintX509SVID"
	hansaMint   = "/hansa.mint.v1.Mint/MintX509SVID"
	hansaStream = "/hansa.mint.v1.Mint/MintX509SVIDs"
	ttlSeconds  = 3600
	// Each signed once, before the clock runs, and sent again and again.
	differentRequests = 512
	verifyEvery       = 100
)

// request is a CSR and the key that its certificate must have.
type request struct {
	csr  []byte
	spki []byte
}

// raw passes messages through: what they mean is written and read here.
type raw struct{}

func (raw) Name() string                      { return "proto" }
func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = bytes.Clone(data)
	return nil
}

type result struct {
	Issued    int     `json:"issued"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50Milliseconds"`
	P99       float64 `json:"p99Milliseconds"`
	Fetched   int64   `json:"fetched"`
}

func main() {
	socket := flag.String("socket", "", "the Unix socket")
	api := flag.String("api", "hansa", "hansa or spire")
	trustDomain := flag.String("trust-domain", "", "of the identities that are asked for")
	callers := flag.Int("callers", 16, "calls in flight; as a stream, requests in flight")
	seconds := flag.Float64("seconds", 5, "how long")
	stream := flag.Bool("stream", false, "one stream instead of a call each")
	fetch := flag.String("fetch", "", "a bundle endpoint that is asked meanwhile")
	sites := flag.Int("sites", 50, "how many fetch it at once")
	every := flag.Duration("every", time.Second, "how often they do")
	flag.Parse()
	fetched := new(atomic.Int64)
	if *fetch != "" {
		go fetchBundles(*fetch, *sites, *every, fetched)
	}
	if err := run(*socket, *api, *trustDomain, *callers, *seconds, *stream, fetched); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(socket, api, trustDomain string, callers int, seconds float64, stream bool, fetched *atomic.Int64) error {
	requests, err := makeRequests(trustDomain)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		return err
	}
	defer connection.Close()
	length := time.Duration(seconds * float64(time.Second))
	var times []time.Duration
	started := time.Now()
	if stream {
		times, err = askByStream(connection, requests, callers, length)
	} else {
		times, err = askByCalls(connection, api, requests, callers, length)
	}
	if err != nil {
		return err
	}
	took := time.Since(started).Seconds()
	slices.Sort(times)
	at := func(share float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return times[int(share*float64(len(times)-1))].Seconds() * 1000
	}
	return json.NewEncoder(os.Stdout).Encode(result{
		len(times), took, float64(len(times)) / took, at(0.5), at(0.99), fetched.Load(),
	})
}

// fetchBundles is load only: what is fetched is not verified.
func fetchBundles(url string, sites int, every time.Duration, fetched *atomic.Int64) {
	for range time.Tick(every) {
		for range sites {
			go func() {
				client := http.Client{
					Timeout: 10 * time.Second,
					Transport: &http.Transport{
						DisableKeepAlives: true,
						TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
					},
				}
				answer, err := client.Get(url)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					fetched.Add(1)
				}
			}()
		}
	}
}

func makeRequests(trustDomain string) ([]request, error) {
	requests := make([]request, differentRequests)
	for i := range requests {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		spki, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return nil, err
		}
		csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			URIs: []*url.URL{{Scheme: "spiffe", Host: trustDomain, Path: fmt.Sprintf("/mint/%d", i)}},
		}, key)
		if err != nil {
			return nil, err
		}
		requests[i] = request{csr, spki}
	}
	return requests, nil
}

// askByCalls keeps as many calls in flight as there are callers.
func askByCalls(connection *grpc.ClientConn, api string, requests []request, callers int, length time.Duration) ([]time.Duration, error) {
	path := hansaMint
	if api == "spire" {
		path = spireMint
	}
	// Both APIs have the same fields here: csr = 1, ttl = 2.
	messages := make([][]byte, len(requests))
	for i, each := range requests {
		messages[i] = protowire.AppendTag(nil, 1, protowire.BytesType)
		messages[i] = protowire.AppendBytes(messages[i], each.csr)
		messages[i] = protowire.AppendTag(messages[i], 2, protowire.VarintType)
		messages[i] = protowire.AppendVarint(messages[i], ttlSeconds)
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	var all []time.Duration
	var failure error
	end := time.Now().Add(length)
	for caller := range callers {
		group.Go(func() {
			times := make([]time.Duration, 0, 1<<14)
			var err error
			for i := caller; time.Now().Before(end) && err == nil; i += callers {
				each := i % len(requests)
				var answer []byte
				began := time.Now()
				err = connection.Invoke(context.Background(), path, &messages[each], &answer)
				times = append(times, time.Since(began))
				if err == nil && len(times)%verifyEvery == 0 {
					err = verify(answer, requests[each])
				}
			}
			lock.Lock()
			all = append(all, times...)
			failure = errors.Join(failure, err)
			lock.Unlock()
		})
	}
	group.Wait()
	return all, failure
}

// askByStream keeps as many requests in flight on one stream.
func askByStream(connection *grpc.ClientConn, requests []request, inFlight int, length time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, hansaStream)
	if err != nil {
		return nil, err
	}
	free := make(chan struct{}, inFlight)
	began := make([]time.Time, 0, 1<<20)
	var lock sync.Mutex
	var sending error
	end := time.Now().Add(length)
	go func() {
		for i := 0; time.Now().Before(end); i++ {
			free <- struct{}{}
			message := protowire.AppendTag(nil, 1, protowire.VarintType)
			message = protowire.AppendVarint(message, uint64(i))
			message = protowire.AppendTag(message, 2, protowire.BytesType)
			message = protowire.AppendBytes(message, requests[i%len(requests)].csr)
			message = protowire.AppendTag(message, 3, protowire.VarintType)
			message = protowire.AppendVarint(message, ttlSeconds)
			lock.Lock()
			began = append(began, time.Now())
			lock.Unlock()
			if err := stream.SendMsg(&message); err != nil {
				sending = err
				break
			}
		}
		_ = stream.CloseSend()
	}()
	var times []time.Duration
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); err != nil {
			if err.Error() == "EOF" {
				break
			}
			return nil, errors.Join(err, sending)
		}
		<-free
		id, svid, err := streamAnswer(answer)
		if err != nil {
			return nil, err
		}
		lock.Lock()
		if id >= uint64(len(began)) {
			lock.Unlock()
			return nil, fmt.Errorf("an answer to request %d, which was not sent", id)
		}
		times = append(times, time.Since(began[id]))
		lock.Unlock()
		if len(times)%verifyEvery == 0 {
			if err := verifySvid(svid, requests[id%uint64(len(requests))]); err != nil {
				return nil, err
			}
		}
	}
	if len(times) != len(began) {
		return nil, fmt.Errorf("%d requests were sent and %d answered", len(began), len(times))
	}
	return times, nil
}

// fields calls for every field of a message; bytes is empty for numbers.
func fields(message []byte, each func(number protowire.Number, bytes []byte, value uint64)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		switch kind {
		case protowire.BytesType:
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return protowire.ParseError(n)
			}
			each(number, value, 0)
			message = message[n:]
		case protowire.VarintType:
			value, n := protowire.ConsumeVarint(message)
			if n < 0 {
				return protowire.ParseError(n)
			}
			each(number, nil, value)
			message = message[n:]
		default:
			return fmt.Errorf("a field of an unexpected type %d", kind)
		}
	}
	return nil
}

// streamAnswer: id = 1, svid = 2, refusal = 3.
func streamAnswer(message []byte) (id uint64, svid []byte, err error) {
	err = fields(message, func(number protowire.Number, bytes []byte, value uint64) {
		switch number {
		case 1:
			id = value
		case 2:
			svid = bytes
		}
	})
	if err == nil && svid == nil {
		err = fmt.Errorf("request %d was refused: %q", id, message)
	}
	return id, svid, err
}

// verify reads a unary answer of either side: svid = 1.
func verify(answer []byte, asked request) error {
	var svid []byte
	if err := fields(answer, func(number protowire.Number, bytes []byte, _ uint64) {
		if number == 1 {
			svid = bytes
		}
	}); err != nil {
		return err
	}
	return verifySvid(svid, asked)
}

// verifySvid: the chain is field 1 on both sides, the leaf first.
func verifySvid(svid []byte, asked request) error {
	var leaf []byte
	if err := fields(svid, func(number protowire.Number, bytes []byte, _ uint64) {
		if number == 1 && leaf == nil {
			leaf = bytes
		}
	}); err != nil {
		return err
	}
	certificate, err := x509.ParseCertificate(leaf)
	if err != nil {
		return err
	}
	if !slices.Equal(certificate.RawSubjectPublicKeyInfo, asked.spki) {
		return errors.New("the certificate has another key than was asked for")
	}
	return nil
}
