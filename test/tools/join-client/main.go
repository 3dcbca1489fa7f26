// Joins a site as a client that shares no line with it: grpc-go for the wire, crypto/tls for the
// exporter, and the transcript written from docs/guide/join.md. The judge of proto/join.proto.
//
//	join-client ADDRESS TRUST-DOMAIN BUNDLE-FILE TOKEN ROLE NAME spiffe SVID-FILE KEY-FILE
//	join-client ADDRESS TRUST-DOMAIN BUNDLE-FILE TOKEN ROLE NAME secret SECRET-FILE
//
// Prints one line of JSON: the identity, or the status and message of the refusal.
package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const service = "/hansa.join.v1.JoinService/"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// raw passes messages as they are: what stands in them is written and read below.
type raw struct{}

func (raw) Name() string                        { return "proto" }
func (raw) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }
func (raw) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

type proof struct {
	method     string
	signer     crypto.Signer
	credential []byte
	// Fields of the initial request beyond the first.
	fields []byte
}

type answer struct {
	SpiffeID   string `json:"spiffeID,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Instance   string `json:"instance,omitempty"`
	Verified   bool   `json:"verified,omitempty"`
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
}

func run(args []string) error {
	if len(args) < 8 {
		return errors.New("ADDRESS TRUST-DOMAIN BUNDLE-FILE TOKEN ROLE NAME spiffe|secret FILE...")
	}
	address, trustDomain, token, role, name := args[0], args[1], args[3], args[4], args[5]
	roots := x509.NewCertPool()
	bundle, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("no certificate in the bundle")
	}
	proven, err := proofOf(args[6], args[7:])
	if err != nil {
		return err
	}
	given, err := join(address, trustDomain, roots, proven, token, role, name)
	if refusal, is := status.FromError(err); err != nil && is {
		given = &answer{Code: refusal.Code().String(), Message: refusal.Message()}
	} else if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(given)
}

func proofOf(method string, files []string) (*proof, error) {
	if method == "secret" {
		text, err := os.ReadFile(files[0])
		if err != nil {
			return nil, err
		}
		encoded, is := strings.CutPrefix(strings.TrimSpace(string(text)), "hansajoin1.")
		seed, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || !is || len(seed) != ed25519.SeedSize {
			return nil, errors.New("no secret")
		}
		key := ed25519.NewKeyFromSeed(seed)
		public := key.Public().(ed25519.PublicKey)
		digest := sha256.Sum256(public)
		return &proof{"RegisterUsingSecretMethod", key, digest[:], bytesField(nil, 2, public)}, nil
	}
	certificates, err := pemBlocks(files[0])
	if err != nil {
		return nil, err
	}
	keys, err := pemBlocks(files[1])
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(keys[0])
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(certificates[0])
	fields := bytesField(nil, 2, certificates[0])
	for _, above := range certificates[1:] {
		fields = bytesField(fields, 3, above)
	}
	return &proof{"RegisterUsingSPIFFEMethod", key.(crypto.Signer), digest[:], fields}, nil
}

func pemBlocks(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		found = append(found, block.Bytes)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("nothing in %s", path)
	}
	return found, nil
}

func join(address, trustDomain string, roots *x509.CertPool, proven *proof, token, role, name string) (*answer, error) {
	// The server first: its SVID must be that of the site.
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true,
		VerifyPeerCertificate: func(chain [][]byte, _ [][]*x509.Certificate) error {
			return verifySVID(chain, roots, "spiffe://"+trustDomain+"/hansa/site")
		},
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := connection.NewStream(ctx, both, service+proven.method, grpc.ForceCodec(raw{}))
	if err != nil {
		return nil, err
	}

	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(own.Public())
	if err != nil {
		return nil, err
	}
	clientNonce := make([]byte, 32)
	rand.Read(clientNonce)
	request := bytesField(nil, 1, []byte(token))
	request = bytesField(request, 2, []byte(role))
	request = bytesField(request, 3, []byte(name))
	request = bytesField(request, 4, public)
	request = bytesField(request, 5, clientNonce)
	initial := append(bytesField(nil, 1, request), proven.fields...)
	message := bytesField(nil, 1, initial)
	if err := stream.SendMsg(&message); err != nil {
		return nil, err
	}
	var challenge []byte
	if err := stream.RecvMsg(&challenge); err != nil {
		return nil, err
	}
	serverNonce := field(field(challenge, 1), 1)
	if len(serverNonce) < 32 {
		return nil, fmt.Errorf("a nonce of %d bytes", len(serverNonce))
	}

	from, _ := peer.FromContext(stream.Context())
	state := from.AuthInfo.(credentials.TLSInfo).State
	exporter, err := state.ExportKeyingMaterial("EXPERIMENTAL-hansa-join-v1", nil, 32)
	if err != nil {
		return nil, err
	}
	transcript := []byte(strings.Repeat(" ", 64) + "hansa join v1\x00")
	for _, each := range [][2][]byte{
		{[]byte("method"), []byte(service + proven.method)},
		{[]byte("trust-domain"), []byte(trustDomain)},
		{[]byte("token"), []byte(token)},
		{[]byte("role"), []byte(role)},
		{[]byte("name"), []byte(name)},
		{[]byte("public-key"), public},
		{[]byte("credential"), proven.credential},
		{[]byte("client-nonce"), clientNonce},
		{[]byte("server-nonce"), serverNonce},
		{[]byte("tls-exporter"), exporter},
	} {
		for _, part := range each {
			transcript = binary.BigEndian.AppendUint32(transcript, uint32(len(part)))
			transcript = append(transcript, part...)
		}
	}
	signature, err := sign(proven.signer, transcript)
	if err != nil {
		return nil, err
	}
	message = bytesField(nil, 2, bytesField(nil, 1, signature))
	if err := stream.SendMsg(&message); err != nil {
		return nil, err
	}
	var last []byte
	if err := stream.RecvMsg(&last); err != nil {
		return nil, err
	}
	certs := field(last, 2)
	chain, authorities := fields(certs, 2), fields(certs, 3)
	pool := x509.NewCertPool()
	for _, der := range authorities {
		authority, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		pool.AddCert(authority)
	}
	id := string(field(certs, 1))
	if err := verifySVID(chain, pool, id); err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return nil, err
	}
	if !own.PublicKey.Equal(leaf.PublicKey) {
		return nil, errors.New("another key was certified")
	}
	return &answer{SpiffeID: id, Instance: string(field(certs, 4)), Generation: number(certs, 5), Verified: true}, nil
}

func sign(signer crypto.Signer, transcript []byte) ([]byte, error) {
	switch key := signer.Public().(type) {
	case ed25519.PublicKey:
		return signer.Sign(rand.Reader, transcript, crypto.Hash(0))
	case *rsa.PublicKey:
		digest := sha256.Sum256(transcript)
		return signer.Sign(rand.Reader, digest[:], &rsa.PSSOptions{SaltLength: 32, Hash: crypto.SHA256})
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P384():
			digest := sha512.Sum384(transcript)
			return signer.Sign(rand.Reader, digest[:], crypto.SHA384)
		case elliptic.P521():
			digest := sha512.Sum512(transcript)
			return signer.Sign(rand.Reader, digest[:], crypto.SHA512)
		}
		digest := sha256.Sum256(transcript)
		return signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	return nil, errors.New("a key of another kind")
}

func verifySVID(chain [][]byte, roots *x509.CertPool, id string) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	above := x509.NewCertPool()
	for _, der := range chain[1:] {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		above.AddCert(certificate)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return err
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != id {
		return fmt.Errorf("not %s", id)
	}
	// A URI is all the name that there is; that the extension is critical, Go leaves to its caller.
	leaf.UnhandledCriticalExtensions = nil
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: above, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

func bytesField(to []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
}

func fields(message []byte, wanted protowire.Number) [][]byte {
	var found [][]byte
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if number == wanted && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			found = append(found, value)
		}
		size = protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return nil
		}
		message = message[size:]
	}
	return found
}

func field(message []byte, wanted protowire.Number) []byte {
	if found := fields(message, wanted); len(found) > 0 {
		return found[0]
	}
	return nil
}

func number(message []byte, wanted protowire.Number) uint64 {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return 0
		}
		message = message[size:]
		if number == wanted && kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(message)
			return value
		}
		message = message[protowire.ConsumeFieldValue(number, kind, message):]
	}
	return 0
}
