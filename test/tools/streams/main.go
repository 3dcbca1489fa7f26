// Holds many streams of the Workload API open and tells when a change has reached them all: the
// workloads of bench/streams.ts, at a site or at a SPIRE agent.
//
//	streams -socket PATH [-count 1000] [-connections 10]
//
// Prints one line of JSON when every stream has its first state, and one whenever every stream was
// told something new since: when the first and when the last of them was, in milliseconds since 1970.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// raw passes messages through: what they mean does not matter here.
type raw struct{}

func (raw) Name() string                      { return "proto" }
func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = bytes.Clone(data)
	return nil
}

type told struct {
	stream int
	at     time.Time
	bytes  int
}

type wave struct {
	Streams int     `json:"streams"`
	Bytes   int     `json:"bytes"`
	First   float64 `json:"firstMs"`
	Last    float64 `json:"lastMs"`
}

func main() {
	socket := flag.String("socket", "", "of the Workload API")
	count := flag.Int("count", 1000, "streams")
	connections := flag.Int("connections", 10, "that they share")
	flag.Parse()
	if err := run(*socket, *count, *connections); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(socket string, count, connections int) error {
	events := make(chan told, count)
	failures := make(chan error, count)
	each := count / connections
	for number := range connections {
		connection, err := grpc.NewClient("unix:"+socket,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			return err
		}
		defer connection.Close()
		for i := range each {
			go follow(connection, number*each+i, events, failures)
		}
	}
	missing := each * connections
	seen := 0
	var first, last time.Time
	size := 0
	// A new wave begins when the one before is over; a stream that is told twice within one counts once.
	generation := map[int]int{}
	now := 1
	for {
		select {
		case err := <-failures:
			return err
		case event := <-events:
			if generation[event.stream] == now {
				continue
			}
			generation[event.stream] = now
			if seen == 0 {
				first = event.at
			}
			last = event.at
			size = event.bytes
			if seen++; seen < missing {
				continue
			}
			if err := json.NewEncoder(os.Stdout).Encode(wave{missing, size, ms(first), ms(last)}); err != nil {
				return err
			}
			seen = 0
			now++
		}
	}
}

func ms(at time.Time) float64 { return float64(at.UnixMicro()) / 1000 }

func follow(connection *grpc.ClientConn, number int, events chan<- told, failures chan<- error) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "workload.spiffe.io", "true")
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/SpiffeWorkloadAPI/FetchX509SVID")
	if err != nil {
		failures <- err
		return
	}
	empty := []byte{}
	if err := stream.SendMsg(&empty); err != nil {
		failures <- err
		return
	}
	if err := stream.CloseSend(); err != nil {
		failures <- err
		return
	}
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			failures <- err
			return
		}
		events <- told{number, time.Now(), len(message)}
	}
}
