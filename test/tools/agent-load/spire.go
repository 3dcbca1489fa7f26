package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	createJoinToken = "/spire.api.server.agent.v1.Agent/CreateJoinToken"
	attestAgent     = "/spire.api.server.agent.v1.Agent/AttestAgent"
	getEntries      = "/spire.api.server.entry.v1.Entry/GetAuthorizedEntries"
	batchNewSVID    = "/spire.api.server.svid.v1.SVID/BatchNewX509SVID"
	// Below this ID are the entries that every agent may ask for.
	fleetPath = "/fleet"
	// Each is signed once, before the clock runs, and sent again and again, as SPIRE's agents would
	// send a new one each time: signing them is no work of the server.
	differentKeys = 512
	verifyEvery   = 100
	// A server learns of new entries every five seconds.
	entriesWithin = 30 * time.Second
)

var nextKey, verified atomic.Uint64

type spireAgent struct {
	connection *grpc.ClientConn
	entries    []string
}

type spireFleet struct {
	given  options
	admin  *grpc.ClientConn
	keys   []keyPair
	csrs   [][]byte
	agents []*spireAgent
}

func newSpireFleet(given options) (*spireFleet, error) {
	admin, err := grpc.NewClient("unix:"+given.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		return nil, err
	}
	keys, err := makeKeys(differentKeys)
	if err != nil {
		return nil, err
	}
	csrs := make([][]byte, len(keys))
	for i, key := range keys {
		if csrs[i], err = signingRequest(key); err != nil {
			return nil, err
		}
	}
	return &spireFleet{given: given, admin: admin, keys: keys, csrs: csrs}, nil
}

func signingRequest(key keyPair) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key.private)
}

func (f *spireFleet) size() int { return len(f.agents) }

func (f *spireFleet) expect(string) (<-chan time.Time, int, error) {
	return nil, 0, errors.New("a SPIRE server does not push")
}

func (f *spireFleet) lost() (<-chan time.Time, int, error) {
	return nil, 0, errors.New("a SPIRE agent holds no stream")
}

func (f *spireFleet) connect(n int) error {
	for len(f.agents) < n {
		agent, err := f.attest()
		if err != nil {
			return err
		}
		f.agents = append(f.agents, agent)
	}
	for _, agent := range f.agents {
		if err := agent.learnEntries(); err != nil {
			return err
		}
	}
	return nil
}

// attest joins a new agent by a token, and gives it the alias that the entries belong to.
func (f *spireFleet) attest() (*spireAgent, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	alias := bytesField(nil, 1, []byte(f.given.trustDomain))
	alias = bytesField(alias, 2, []byte(fleetPath))
	request := bytesField(numberField(nil, 1, 600), 3, alias)
	var made []byte
	if err := f.admin.Invoke(ctx, createJoinToken, &request, &made); err != nil {
		return nil, err
	}
	token, err := field(made, 1)
	if err != nil {
		return nil, err
	}
	key, err := makeKey()
	if err != nil {
		return nil, err
	}
	csr, err := signingRequest(key)
	if err != nil {
		return nil, err
	}
	server := "spiffe://" + f.given.trustDomain + "/spire/server"
	first, err := dial(f.given.address, nil, server, nil)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := first.NewStream(ctx, both, attestAgent)
	if err != nil {
		return nil, err
	}
	data := bytesField(bytesField(nil, 1, []byte("join_token")), 2, token)
	params := bytesField(bytesField(nil, 1, data), 2, bytesField(nil, 1, csr))
	message := bytesField(nil, 1, params)
	if err := stream.SendMsg(&message); err != nil {
		return nil, err
	}
	var answered []byte
	if err := stream.RecvMsg(&answered); err != nil {
		return nil, err
	}
	chain, err := chainIn(answered, 1, 1)
	if err != nil {
		return nil, err
	}
	own := &tls.Certificate{Certificate: chain, PrivateKey: key.private}
	connection, err := dial(f.given.address, nil, server, own)
	if err != nil {
		return nil, err
	}
	return &spireAgent{connection: connection}, nil
}

// chainIn reads the certificates of an X509SVID that is nested below these fields.
func chainIn(message []byte, path ...protowire.Number) (chain [][]byte, err error) {
	for _, number := range path {
		if message, err = field(message, number); err != nil {
			return nil, err
		}
	}
	err = fields(message, func(number protowire.Number, bytes []byte, _ uint64) {
		if number == 1 {
			chain = append(chain, bytes)
		}
	})
	if err == nil && len(chain) == 0 {
		err = errors.New("the server sent no certificate")
	}
	return chain, err
}

func (a *spireAgent) learnEntries() error {
	deadline := time.Now().Add(entriesWithin)
	for len(a.entries) == 0 {
		var request, found []byte
		if err := a.connection.Invoke(context.Background(), getEntries, &request, &found); err != nil {
			return err
		}
		err := fields(found, func(_ protowire.Number, entry []byte, _ uint64) {
			if id, err := field(entry, 1); err == nil {
				a.entries = append(a.entries, string(id))
			}
		})
		if err != nil {
			return err
		}
		if len(a.entries) > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the server gave an agent no entries")
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

func (f *spireFleet) sign(i, batch int) (int, error) {
	agent := f.agents[i]
	var request []byte
	used := make([]keyPair, batch)
	for n := range batch {
		which := nextKey.Add(1) % differentKeys
		used[n] = f.keys[which]
		params := bytesField(nil, 1, []byte(agent.entries[n%len(agent.entries)]))
		request = bytesField(request, 1, bytesField(params, 2, f.csrs[which]))
	}
	var answered []byte
	if err := agent.connection.Invoke(context.Background(), batchNewSVID, &request, &answered); err != nil {
		return 0, err
	}
	count := 0
	var wrong error
	err := fields(answered, func(_ protowire.Number, result []byte, _ uint64) {
		chain, err := chainIn(result, 2)
		if err != nil {
			wrong = fmt.Errorf("an SVID was refused: %q", result)
			return
		}
		if verified.Add(1)%verifyEvery == 0 {
			wrong = errors.Join(wrong, certifies(chain[0], used[count]))
		}
		count++
	})
	if count != batch && wrong == nil {
		wrong = fmt.Errorf("%d SVIDs were asked for and %d came", batch, count)
	}
	return count, errors.Join(err, wrong)
}
