package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	connectAgent  = "/hansa.agent.v1.AgentService/Connect"
	exporterLabel = "EXPERIMENTAL-hansa-agent-v1"
	exporterBytes = 32
	// Of the section `identities`.
	entryCollection = "workloadentries"
	connectWithin   = 2 * time.Minute
	// As many at once: a machine that starts has one, and a site serves all of them.
	connectAtOnce = 64
	firstRetry    = time.Second
	mostRetry     = 30 * time.Second
	leastRetry    = 50 * time.Millisecond
	goodStream    = 30 * time.Second
)

// identities is the file that bench/agent-fleet.ts writes.
type identities struct {
	Bundle [][]byte `json:"bundle"`
	Agents []struct {
		Name  string   `json:"name"`
		Chain [][]byte `json:"chain"`
		Key   []byte   `json:"key"`
	} `json:"agents"`
}

type hansaFleet struct {
	given  options
	server string
	roots  *x509.CertPool
	keys   []keyPair
	all    []*hansaAgent
	// Of `all`, so many were told to connect.
	started int
}

type itemKey struct{ section, collection, name string }

type hansaAgent struct {
	fleet   *hansaFleet
	name    string
	own     *tls.Certificate
	session []byte

	lock     sync.Mutex
	version  []byte
	digests  map[itemKey][]byte
	entries  map[string]string
	uids     []string
	stream   grpc.ClientStream
	exporter []byte
	isReady  bool
	ready    chan struct{}
	waiting  map[uint64]chan []byte
	nextID   uint64
	expected []byte
	onItem   chan<- time.Time
	onReturn chan<- time.Time
	sending  sync.Mutex
}

func newHansaFleet(given options) (*hansaFleet, error) {
	text, err := os.ReadFile(given.identities)
	if err != nil {
		return nil, err
	}
	var known identities
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, err
	}
	keys, err := makeKeys(differentKeys)
	if err != nil {
		return nil, err
	}
	fleet := &hansaFleet{
		given:  given,
		server: "spiffe://" + given.trustDomain + "/hansa/site",
		roots:  x509.NewCertPool(),
		keys:   keys,
	}
	for _, der := range known.Bundle {
		authority, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		fleet.roots.AddCert(authority)
	}
	for _, each := range known.Agents {
		key, err := x509.ParsePKCS8PrivateKey(each.Key)
		if err != nil {
			return nil, err
		}
		session := make([]byte, 16)
		if _, err := rand.Read(session); err != nil {
			return nil, err
		}
		fleet.all = append(fleet.all, &hansaAgent{
			fleet:   fleet,
			name:    each.Name,
			own:     &tls.Certificate{Certificate: each.Chain, PrivateKey: key},
			session: session,
			digests: map[itemKey][]byte{},
			entries: map[string]string{},
			ready:   make(chan struct{}),
			waiting: map[uint64]chan []byte{},
		})
	}
	return fleet, nil
}

func (f *hansaFleet) size() int { return f.started }

func (f *hansaFleet) connect(n int) error {
	if n > len(f.all) {
		return fmt.Errorf("there are %d identities", len(f.all))
	}
	free := make(chan struct{}, connectAtOnce)
	var group sync.WaitGroup
	var lock sync.Mutex
	var failure error
	for _, agent := range f.all[f.started:n] {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			go agent.run()
			select {
			case <-agent.ready:
			case <-time.After(connectWithin):
				lock.Lock()
				failure = fmt.Errorf("%s has no state after %s", agent.name, connectWithin)
				lock.Unlock()
			}
		})
	}
	group.Wait()
	f.started = n
	return failure
}

func (f *hansaFleet) expect(text string) (<-chan time.Time, int, error) {
	reached := make(chan time.Time, f.started)
	for _, agent := range f.all[:f.started] {
		agent.lock.Lock()
		agent.expected, agent.onItem = []byte(text), reached
		agent.lock.Unlock()
	}
	return reached, f.started, nil
}

func (f *hansaFleet) lost() (<-chan time.Time, int, error) {
	returned := make(chan time.Time, f.started)
	for _, agent := range f.all[:f.started] {
		agent.lock.Lock()
		agent.onReturn = returned
		agent.lock.Unlock()
	}
	return returned, f.started, nil
}

// run connects again whenever the stream ends, with the backoff of an agent (core/agent/agent-link.ts).
func (a *hansaAgent) run() {
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := a.follow()
		code := status.Code(err)
		if code == codes.PermissionDenied || code == codes.Unauthenticated || code == codes.InvalidArgument {
			fmt.Fprintf(os.Stderr, "%s was refused: %v\n", a.name, err)
			os.Exit(1)
		}
		a.forget()
		if time.Since(began) >= goodStream {
			attempt = 0
		}
		most := min(mostRetry, firstRetry<<min(attempt, 10))
		time.Sleep(leastRetry + time.Duration(mathrand.Int64N(int64(most-leastRetry))))
	}
}

// forget ends what waits for the stream.
func (a *hansaAgent) forget() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.isReady = false
	a.stream = nil
	for id, waiting := range a.waiting {
		delete(a.waiting, id)
		close(waiting)
	}
}

func (a *hansaAgent) follow() error {
	connection, err := dial(a.fleet.given.address, a.fleet.roots, a.fleet.server, a.own)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, connectAgent)
	if err != nil {
		return err
	}
	from, known := peer.FromContext(stream.Context())
	if !known {
		return errors.New("no connection")
	}
	state := from.AuthInfo.(credentials.TLSInfo).State
	exporter, err := state.ExportKeyingMaterial(exporterLabel, []byte{}, exporterBytes)
	if err != nil {
		return err
	}
	a.lock.Lock()
	a.stream, a.exporter = stream, exporter
	hello := bytesField(nil, 1, a.hello())
	a.lock.Unlock()
	if err := a.send(stream, hello); err != nil {
		return err
	}
	step := &stateStep{}
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		var failure error
		err := fields(message, func(number protowire.Number, value []byte, _ uint64) {
			switch number {
			case 1:
				failure = a.take(stream, step, value)
			case 2:
				a.answered(value)
			case 3:
				nonce, _ := field(value, 1)
				failure = a.send(stream, bytesField(nil, 6, bytesField(nil, 1, nonce)))
			}
		})
		if err := errors.Join(err, failure); err != nil {
			return err
		}
	}
}

func (a *hansaAgent) send(stream grpc.ClientStream, message []byte) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	return stream.SendMsg(&message)
}

func (a *hansaAgent) hello() []byte {
	hello := bytesField(nil, 1, []byte("0.0.0-load"))
	hello = bytesField(hello, 2, []byte(a.name))
	hello = bytesField(hello, 3, a.session)
	if a.version != nil {
		hello = bytesField(hello, 4, a.version)
	}
	for key, digest := range a.digests {
		name := bytesField(nil, 1, []byte(key.section))
		name = bytesField(name, 2, []byte(key.collection))
		name = bytesField(name, 3, []byte(key.name))
		hello = bytesField(hello, 5, bytesField(bytesField(nil, 1, name), 2, digest))
	}
	return hello
}

// stateStep collects the messages of one step.
type stateStep struct {
	version []byte
	whole   bool
	begun   bool
	put     []putItem
	removed []itemKey
}

type putItem struct {
	key   itemKey
	value []byte
}

func readName(message []byte) (key itemKey, err error) {
	err = fields(message, func(number protowire.Number, value []byte, _ uint64) {
		switch number {
		case 1:
			key.section = string(value)
		case 2:
			key.collection = string(value)
		case 3:
			key.name = string(value)
		}
	})
	return key, err
}

func (a *hansaAgent) take(stream grpc.ClientStream, step *stateStep, message []byte) error {
	more := false
	var base []byte
	var wrong error
	err := fields(message, func(number protowire.Number, value []byte, flag uint64) {
		switch number {
		case 1:
			step.version = bytes.Clone(value)
		case 2:
			base = value
		case 3:
			nested, err := field(value, 1)
			wrong = errors.Join(wrong, err)
			key, err := readName(nested)
			wrong = errors.Join(wrong, err)
			content, err := field(value, 2)
			wrong = errors.Join(wrong, err)
			step.put = append(step.put, putItem{key, content})
		case 4:
			key, err := readName(value)
			wrong = errors.Join(wrong, err)
			step.removed = append(step.removed, key)
		case 5:
			more = flag != 0
		}
	})
	if err := errors.Join(err, wrong); err != nil {
		return err
	}
	if !step.begun {
		step.begun, step.whole = true, len(base) == 0
	}
	if more {
		return nil
	}
	a.apply(step)
	acknowledge := bytesField(nil, 2, bytesField(nil, 1, step.version))
	*step = stateStep{}
	if err := a.send(stream, acknowledge); err != nil {
		return err
	}
	a.becameReady()
	return nil
}

func (a *hansaAgent) apply(step *stateStep) {
	at := time.Now()
	a.lock.Lock()
	defer a.lock.Unlock()
	if step.whole {
		clear(a.digests)
		clear(a.entries)
	}
	for _, key := range step.removed {
		delete(a.digests, key)
		delete(a.entries, key.name)
	}
	for _, item := range step.put {
		digest := sha256.Sum256(item.value)
		a.digests[item.key] = digest[:]
		if item.key.collection == entryCollection {
			a.entries[item.key.name] = uidOf(item.value)
		}
		if a.onItem != nil && bytes.Contains(item.value, a.expected) {
			a.onItem <- at
			a.onItem = nil
		}
	}
	a.uids = a.uids[:0]
	for _, uid := range a.entries {
		a.uids = append(a.uids, uid)
	}
	slices.Sort(a.uids)
	a.version = step.version
}

func uidOf(entry []byte) string {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(entry, &object)
	return object.Metadata.UID
}

func (a *hansaAgent) becameReady() {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.isReady {
		return
	}
	a.isReady = true
	select {
	case <-a.ready:
		// Not the first time.
		if a.onReturn != nil {
			a.onReturn <- time.Now()
			a.onReturn = nil
		}
	default:
		close(a.ready)
	}
}

func (a *hansaAgent) answered(message []byte) {
	id := uint64(0)
	_ = fields(message, func(number protowire.Number, _ []byte, value uint64) {
		if number == 1 {
			id = value
		}
	})
	a.lock.Lock()
	waiting := a.waiting[id]
	delete(a.waiting, id)
	a.lock.Unlock()
	if waiting != nil {
		waiting <- message
	}
}

// transcript is what the key of a workload signs (src/trust/agents/sign-transcript.ts).
func (a *hansaAgent) transcript(exporter []byte, request uint64, entry string, publicKey []byte) []byte {
	signed := []byte(strings.Repeat(" ", 64) + "hansa agent sign v1\x00")
	for _, part := range [][]byte{
		[]byte("trust-domain"), []byte(a.fleet.given.trustDomain),
		[]byte("agent"), []byte(a.name),
		[]byte("tls-exporter"), exporter,
		[]byte("request"), strconv.AppendUint(nil, request, 10),
		[]byte("entry"), []byte(entry),
		[]byte("public-key"), publicKey,
	} {
		signed = binary.BigEndian.AppendUint32(signed, uint32(len(part)))
		signed = append(signed, part...)
	}
	return signed
}

func (f *hansaFleet) sign(i, batch int) (int, error) {
	a := f.all[i]
	a.lock.Lock()
	stream, exporter, uids := a.stream, a.exporter, a.uids
	a.nextID++
	id := a.nextID
	answer := make(chan []byte, 1)
	a.waiting[id] = answer
	a.lock.Unlock()
	if stream == nil || len(uids) == 0 {
		return 0, fmt.Errorf("%s has no stream or no entries", a.name)
	}
	request := numberField(nil, 1, id)
	used := make([]keyPair, batch)
	for n := range batch {
		used[n] = f.keys[nextKey.Add(1)%differentKeys]
		uid := uids[n%len(uids)]
		digest := sha256.Sum256(a.transcript(exporter, id, uid, used[n].spki))
		proof, err := ecdsa.SignASN1(rand.Reader, used[n].private, digest[:])
		if err != nil {
			return 0, err
		}
		wish := bytesField(nil, 1, []byte(uid))
		wish = bytesField(wish, 2, used[n].spki)
		request = bytesField(request, 2, bytesField(wish, 3, proof))
	}
	if err := a.send(stream, bytesField(nil, 3, request)); err != nil {
		return 0, err
	}
	message, open := <-answer
	if !open {
		return 0, fmt.Errorf("%s lost its stream", a.name)
	}
	return countSigned(message, used)
}

// countSigned reads a SignResponse.
func countSigned(message []byte, used []keyPair) (int, error) {
	count := 0
	var wrong error
	err := fields(message, func(number protowire.Number, result []byte, _ uint64) {
		if number != 2 {
			return
		}
		var leaf, refusal []byte
		_ = fields(result, func(number protowire.Number, value []byte, _ uint64) {
			switch {
			case number == 1 && leaf == nil:
				leaf = value
			case number == 3:
				refusal = value
			}
		})
		if leaf == nil {
			wrong = fmt.Errorf("an SVID was refused: %q", refusal)
			return
		}
		if count < len(used) && verified.Add(1)%verifyEvery == 0 {
			wrong = errors.Join(wrong, certifies(leaf, used[count]))
		}
		count++
	})
	if count != len(used) && wrong == nil {
		wrong = fmt.Errorf("%d SVIDs were asked for and %d came", len(used), count)
	}
	return count, errors.Join(err, wrong)
}
