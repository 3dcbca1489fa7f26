import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type ClientHttp2Session, type ClientHttp2Stream, connect, createServer } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import {
  type MintX509SVIDResponse,
  MintX509SVIDRequestSchema,
  MintX509SVIDResponseSchema,
  MintX509SVIDsRequestSchema,
  type MintX509SVIDsResponse,
  MintX509SVIDsResponseSchema,
} from '../../../proto/gen/mint_pb.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { parseChain, validateChain } from '../../core/identity/x509/svid-validator.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import { mintCalls } from './mint-service.ts';
import { forge, p256 } from './test-signing-request.ts';

const one = '/hansa.mint.v1.Mint/MintX509SVID';
const many = '/hansa.mint.v1.Mint/MintX509SVIDs';

/** The calls on a socket of their own: which connections reach them is the server's. */
async function serve(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-mint-'));
  const { authority, clock } = await testSite();
  const audited: AuditDraft[] = [];
  const calls = mintCalls({
    authority,
    audit: {
      record: () => assert.fail('nothing is committed here'),
      deny: () => assert.fail('nobody else can call'),
      later: (draft) => void audited.push(draft),
    },
    metrics: new MetricsRegistry(),
    siteNames: ['site.example', '.kube-fed.svc'],
  });
  const server = createServer();
  server.on('stream', (stream, headers) =>
    calls.find(({ path }) => path === headers[':path'])?.handle(stream),
  );
  const path = join(folder, 'admin.sock');
  server.listen(path);
  await once(server, 'listening');
  const client = new Client(`unix:${path}`, credentials.createInsecure());
  t.after(() => {
    client.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  return { client, path, authority, clock, audited };
}

function mint(client: Client, csr: Buffer, ttlSeconds = 0): Promise<MintX509SVIDResponse> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      one,
      (value: Uint8Array) => Buffer.from(value),
      (bytes) => fromBinary(MintX509SVIDResponseSchema, bytes),
      toBinary(MintX509SVIDRequestSchema, create(MintX509SVIDRequestSchema, { csr, ttlSeconds })),
      (error, answer) => {
        if (answer === undefined) reject(error);
        else resolve(answer);
      },
    );
  });
}

function openStream(client: Client) {
  return client.makeBidiStreamRequest(
    many,
    (value: Uint8Array) => Buffer.from(value),
    (bytes) => fromBinary(MintX509SVIDsResponseSchema, bytes),
  );
}

const streamed = (id: number, csr: Buffer): Uint8Array =>
  toBinary(MintX509SVIDsRequestSchema, create(MintX509SVIDsRequestSchema, { id, csr }));

function refusedWith(code: status, words: RegExp) {
  return (error: ServiceError): boolean => {
    assert.equal(error.code, code, error.message);
    assert.match(error.details, words);
    return true;
  };
}

describe('minting over gRPC', () => {
  test('gives an SVID for the key and the identity of the request', async (t) => {
    const { client, authority, clock, audited } = await serve(t);
    const { svid } = await mint(client, forge({ dnsNames: ['db.lubeck.example'] }), 600);
    assert.ok(svid !== undefined);
    const chain = parseChain(svid.chain);
    const { id } = validateChain(chain, { bundleFor: () => authority.bundle }, clock.now());
    assert.equal(id.toString(), 'spiffe://lubeck.example/db');
    assert.equal(svid.spiffeId, id.toString());
    assert.equal(Number(svid.expiresAt) * 1000, chain[0]?.notAfterMs);
    assert.equal((chain[0]?.notAfterMs ?? 0) - Math.floor(clock.now() / 1000) * 1000, 600_000);
    assert.deepEqual(chain[0]?.extensions.subjectAlternativeName?.dnsNames, ['db.lubeck.example']);
    assert.equal(audited.length, 1);
    assert.equal(audited[0]?.verb, 'svid.mint');
    assert.match(audited[0]?.reason ?? '', new RegExp(`serial number ${chain[0]?.serialHex}`));
  });

  const refusals: readonly [what: string, csr: Buffer, ttl: number, code: status, words: RegExp][] =
    [
      [
        'a reserved identity',
        forge({ uris: ['spiffe://lubeck.example/hansa/site'] }),
        0,
        status.PERMISSION_DENIED,
        /reserved/,
      ],
      ...['site.example', '*.example', 'api.app1.kube-fed.svc', 'API.Kube-Fed.SVC'].map(
        (name): [string, Buffer, number, status, RegExp] => [
          `the name ${name} of the site`,
          forge({ dnsNames: ['db.lubeck.example', name] }),
          0,
          status.PERMISSION_DENIED,
          /a DNS name of the site itself/,
        ],
      ),
      [
        'an identity of another trust domain',
        forge({ uris: ['spiffe://bruges.example/db'] }),
        0,
        status.INVALID_ARGUMENT,
        /issues identities of the form spiffe:\/\/lubeck\.example/,
      ],
      [
        'the trust domain itself',
        forge({ uris: ['spiffe://lubeck.example'] }),
        0,
        status.INVALID_ARGUMENT,
        /of the form/,
      ],
      ['a signing certificate', forge({ ca: true }), 0, status.INVALID_ARGUMENT, /leaf-not-ca/],
      [
        'a request that somebody else signed',
        forge({ signedBy: p256() }),
        0,
        status.INVALID_ARGUMENT,
        /not signed with the key/,
      ],
      ['more than an hour', forge(), 3601, status.INVALID_ARGUMENT, /1 to 3600/],
      ['no request at all', Buffer.alloc(0), 0, status.INVALID_ARGUMENT, /malformed-der/],
      ['a request that is too large', Buffer.alloc(9000), 0, status.RESOURCE_EXHAUSTED, /9003/],
    ];
  for (const [what, csr, ttl, code, words] of refusals) {
    test(`refuses ${what}`, async (t) => {
      const { client, audited } = await serve(t);
      await assert.rejects(mint(client, csr, ttl), refusedWith(code, words));
      assert.deepEqual(audited, []);
    });
  }

  test('answers every request of a stream under its id, also more than it works on at once', async (t) => {
    const { client } = await serve(t);
    const call = openStream(client);
    const csr = forge();
    const ids = Array.from({ length: 500 }, (_, id) => id);
    for (const id of ids) call.write(streamed(id, csr));
    call.end();
    const answers: MintX509SVIDsResponse[] = [];
    for await (const answer of call) answers.push(answer as MintX509SVIDsResponse);
    assert.deepEqual(
      answers.map(({ id }) => id).toSorted((a, b) => a - b),
      ids,
    );
    assert.ok(answers.every(({ result }) => result.case === 'svid'));
  });

  test('refuses one request of a stream and goes on with the next', async (t) => {
    const { client } = await serve(t);
    const call = openStream(client);
    call.write(streamed(7, forge({ ca: true })));
    call.write(streamed(8, forge()));
    call.end();
    const cases = new Map<number, string | undefined>();
    for await (const answer of call) {
      const { id, result } = answer as MintX509SVIDsResponse;
      cases.set(id, result.case);
      if (result.case === 'refusal') assert.match(result.value.message, /leaf-not-ca/);
    }
    assert.deepEqual([cases.get(7), cases.get(8)], ['refusal', 'svid']);
  });

  test('ends a stream whose message is none, after what was answered', async (t) => {
    const { client } = await serve(t);
    const call = openStream(client);
    call.write(Buffer.from('0a', 'hex'));
    await assert.rejects(
      async () => {
        for await (const _ of call) assert.fail('there is nothing to answer');
      },
      refusedWith(status.INVALID_ARGUMENT, /fields cannot be read/),
    );
  });

  const raw: readonly [what: string, path: string, bytes: string, grpcStatus: string][] = [
    ['a call that ends before its message', one, '0000000005aa', '3'],
    ['a call without a message', one, '', '3'],
    ['a call with two messages', one, '00000000000000000000', '3'],
    ['a compressed message', one, '0100000000', '3'],
    ['a message of four gigabytes', one, '00ffffffff', '8'],
    ['a stream that ends in a message', many, '0000000005aa', '3'],
    ['a stream with a message of four gigabytes', many, '00ffffffff', '8'],
  ];
  for (const [what, path, bytes, expected] of raw) {
    test(`refuses ${what}`, async (t) => {
      const { path: socket } = await serve(t);
      const session = connect('http://localhost', {
        createConnection: () => connectSocket(socket),
      });
      t.after(() => session.destroy());
      assert.equal(await statusOf(open(session, path), Buffer.from(bytes, 'hex')), expected);
    });
  }
});

function open(session: ClientHttp2Session, path: string): ClientHttp2Stream {
  return session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
}

/** The status, in the head of the answer or after it. */
async function statusOf(call: ClientHttp2Stream, bytes: Buffer): Promise<string | undefined> {
  let found: string | undefined;
  const look = (headers: NodeJS.Dict<string | string[]>): void => {
    found ??= headers['grpc-status'] as string | undefined;
  };
  call.on('response', look).on('trailers', look);
  call.on('error', () => undefined);
  call.resume().end(bytes);
  await once(call, 'close');
  return found;
}
