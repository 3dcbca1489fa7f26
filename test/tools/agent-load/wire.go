package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
)

// As many bytes as a site sends in one message.
const largestMessage = 16 << 20

// raw passes messages through: what they mean is written and read here.
type raw struct{}

func (raw) Name() string                      { return "proto" }
func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = bytes.Clone(data)
	return nil
}

func bytesField(to []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
}

func numberField(to []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), value)
}

// fields calls for every field of a message; bytes is nil for numbers.
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

// field returns the bytes of the last field with this number, or nil.
func field(message []byte, wanted protowire.Number) (found []byte, err error) {
	err = fields(message, func(number protowire.Number, bytes []byte, _ uint64) {
		if number == wanted {
			found = bytes
		}
	})
	return found, err
}

type keyPair struct {
	private *ecdsa.PrivateKey
	spki    []byte
}

func makeKey() (keyPair, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	return keyPair{private, spki}, err
}

func makeKeys(count int) ([]keyPair, error) {
	keys := make([]keyPair, count)
	for i := range keys {
		key, err := makeKey()
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	return keys, nil
}

// dial connects with an SVID, or without one, to a server with this SPIFFE ID.
func dial(address string, roots *x509.CertPool, server string, own *tls.Certificate) (*grpc.ClientConn, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true,
		VerifyPeerCertificate: func(chain [][]byte, _ [][]*x509.Certificate) error {
			return verifySVID(chain, roots, server)
		},
	}
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(largestMessage)))
}

// verifySVID verifies with the given roots, or only the SPIFFE ID where there are none.
func verifySVID(chain [][]byte, roots *x509.CertPool, id string) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return err
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != id {
		return fmt.Errorf("the certificate of the server is not that of %s", id)
	}
	if roots == nil {
		return nil
	}
	above := x509.NewCertPool()
	for _, der := range chain[1:] {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		above.AddCert(certificate)
	}
	// A URI is the only name. Go leaves it to the caller that the extension is critical.
	leaf.UnhandledCriticalExtensions = nil
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: above, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

// certifies checks that a leaf is for the key that was sent.
func certifies(leaf []byte, key keyPair) error {
	certificate, err := x509.ParseCertificate(leaf)
	if err != nil {
		return err
	}
	if !slices.Equal(certificate.RawSubjectPublicKeyInfo, key.spki) {
		return errors.New("the certificate has another key than was asked for")
	}
	return nil
}
