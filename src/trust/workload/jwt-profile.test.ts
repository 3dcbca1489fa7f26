import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import {
  JWTBundlesResponseSchema,
  JWTSVIDRequestSchema,
  JWTSVIDResponseSchema,
  ValidateJWTSVIDRequestSchema,
  ValidateJWTSVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { validateJwtSvid } from '../../core/identity/jwt/svid-validator.ts';
import { signJwtSvid } from '../../core/identity/jwt/sign-svid.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import {
  fetchBundles,
  openAuthority,
  ownUid,
  put,
  putEntry,
  putFederation,
  remove,
  TestStream,
} from './test-workload-site.ts';
import { onSiteAndAgent, type StartedHost } from '../agent/test-workload-hosts.ts';
import { jwtProfile, type JwtProfileOptions } from './jwt-profile.ts';
import { siteIssuer } from './svids/issuer.ts';
import { JwtSupply } from './svids/jwt-supply.ts';

async function unary<Req extends DescMessage, Res extends DescMessage>(
  socket: string,
  method: string,
  [request, value]: readonly [Req, MessageInitShape<Req>],
  response: Res,
): Promise<MessageShape<Res>> {
  const client = new Client(`unix:${socket}`, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set('workload.spiffe.io', 'true');
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        `/SpiffeWorkloadAPI/${method}`,
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => fromBinary(response, bytes),
        toBinary(request, create(request, value)),
        metadata,
        (error: ServiceError | null, answer?: MessageShape<Res>) =>
          error === null ? resolve(answer as MessageShape<Res>) : reject(error),
      );
    });
  } finally {
    client.close();
  }
}

const fetchJwt = ({ socket }: StartedHost, value: MessageInitShape<typeof JWTSVIDRequestSchema>) =>
  unary(socket, 'FetchJWTSVID', [JWTSVIDRequestSchema, value], JWTSVIDResponseSchema);

const validate = ({ socket }: StartedHost, svid: string, audience = 'db') =>
  unary(
    socket,
    'ValidateJWTSVID',
    [ValidateJWTSVIDRequestSchema, { svid, audience }],
    ValidateJWTSVIDResponseSchema,
  );

function jwtBundles(t: TestContext, { socket }: StartedHost) {
  const stream = new TestStream(socket, 'FetchJWTBundles', JWTBundlesResponseSchema);
  t.after(() => stream.close());
  return {
    end: () => stream.end(),
    /** The key IDs of the next state, by trust domain ID. */
    next: async (): Promise<Record<string, readonly string[]>> => {
      const { bundles } = await stream.next();
      return Object.fromEntries(
        Object.entries(bundles).map(([id, jwks]) => {
          const { keys } = JSON.parse(Buffer.from(jwks).toString()) as {
            keys: { kid: string; use?: string }[];
          };
          return [id, keys.map(({ kid }) => kid)];
        }),
      );
    },
  };
}

const refused = (code: status, message: RegExp) => (error: unknown) => {
  assert.equal((error as ServiceError).code, code, String(error));
  assert.match((error as ServiceError).details, message);
  return true;
};

const noAudit = () => [];

onSiteAndAgent('FetchJWTSVID', (host) => {
  test('gives no token of an entry that is gone when it is signed', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    const { jwtSigner } = started.authority;
    // Larger keys sign in another thread, and much can happen meanwhile.
    t.mock.getter(started.authority, 'jwtSigner', () => ({
      ...jwtSigner,
      signer: {
        algorithm: jwtSigner.signer.algorithm,
        publicKey: jwtSigner.signer.publicKey,
        sign: async (bytes: Uint8Array) => {
          await remove(started.store, 'workloadentries', 'web');
          return jwtSigner.signer.sign(bytes);
        },
      },
    }));
    await assert.rejects(
      fetchJwt(started, { audience: ['db'] }),
      refused(status.PERMISSION_DENIED, /No identity is registered/),
    );
  });

  test('gives no token to a process that ended, or became another, while it was signed', async (t) => {
    const { store, authority, clock } = await host.site(t);
    await putEntry(store, 'web');
    const entry = {
      id: SpiffeId.parse('spiffe://lubeck.example/web'),
      uid: '1',
      jwtTtlSeconds: 60,
    };
    const audit = { later: () => undefined };
    const issuer = siteIssuer({ authority, clock, audit, jwtIssuer: undefined });
    const profile = jwtProfile({
      delivery: { entriesOf: () => [entry] },
      connections: { get: () => ({ process: { description: 'pid 1' }, isSame: () => false }) },
      jwtSupply: new JwtSupply({ issuer, clock, issued: () => undefined }),
      clock,
    } as unknown as JwtProfileOptions);
    const call = { getPeer: () => '', request: create(JWTSVIDRequestSchema, { audience: ['db'] }) };
    const error = await new Promise((resolve) => {
      profile.FetchJWTSVID(call as never, (refusal) => resolve(refusal));
    });
    assert.equal((error as ServiceError | null)?.code, status.UNAUTHENTICATED);
  });

  test('gives a token of the entry that matches, for the audience that was asked', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    const { svids } = await fetchJwt(started, { audience: ['db', 'cache'] });
    assert.deepEqual(
      svids.map(({ spiffeId, hint }) => [spiffeId, hint]),
      [['spiffe://lubeck.example/web', 'web']],
    );
    const read = validateJwtSvid(
      svids[0]?.svid ?? '',
      'cache',
      { bundleFor: () => started.authority.bundle },
      started.clock.now(),
    );
    assert.equal(read.id.toString(), 'spiffe://lubeck.example/web');
    assert.deepEqual(read.audience, ['db', 'cache']);
    assert.equal(read.keyId, started.authority.jwtSigner.keyId);
    const { iat, exp } = read.claims as { iat: number; exp: number };
    assert.equal(exp - iat, 300);
  });

  test('gives a token of every entry, or of the identity that was asked for', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'a');
    await putEntry(started.store, 'b');
    const ids = async (spiffeId: string) =>
      (await fetchJwt(started, { audience: ['db'], spiffeId })).svids.map((svid) => svid.spiffeId);
    assert.deepEqual(await ids(''), ['spiffe://lubeck.example/a', 'spiffe://lubeck.example/b']);
    assert.deepEqual(await ids('spiffe://lubeck.example/b'), ['spiffe://lubeck.example/b']);
  });

  test('has no hint twice', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'a', { hint: 'internal' });
    await putEntry(started.store, 'b', { hint: 'internal' });
    const { svids } = await fetchJwt(started, { audience: ['db'] });
    assert.deepEqual(
      svids.map(({ spiffeId, hint }) => [spiffeId, hint]),
      [
        ['spiffe://lubeck.example/a', 'internal'],
        ['spiffe://lubeck.example/b', ''],
      ],
    );
  });

  test('records and counts what was issued, and not what was given again', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    const first = await fetchJwt(started, { audience: ['db'] });
    const again = await fetchJwt(started, { audience: ['db'] });
    assert.equal(again.svids[0]?.svid, first.svids[0]?.svid);
    if (host.audits)
      assert.deepEqual(
        started.issued.map(({ verb, name }) => [verb, name]),
        [['svid.issue', 'web']],
      );
    if (host.audits)
      assert.match(started.issued[0]?.reason ?? '', /JWT-SVID for \["db"\] with key /);
    assert(!JSON.stringify(started.issued).includes(first.svids[0]?.svid ?? ''));
    assert.match(
      started.metrics.expose(),
      /hansa_workload_jwt_svids_issued_total\{result="issued"\} 1\n/,
    );
  });

  test('refuses a process that no entry matches, and an identity that is not its own', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'other', { selectors: [`unix:uid:${ownUid + 1}`] });
    await assert.rejects(
      fetchJwt(started, { audience: ['db'] }),
      refused(status.PERMISSION_DENIED, /No identity is registered/),
    );
    await putEntry(started.store, 'web');
    await assert.rejects(
      fetchJwt(started, { audience: ['db'], spiffeId: 'spiffe://lubeck.example/other' }),
      refused(status.PERMISSION_DENIED, /other is not registered for this process/),
    );
    if (host.audits) assert.equal(started.denials.length, 2);
  });

  test('refuses a request without audience, or that cannot be read', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    for (const [request, message] of [
      [{}, /needs an audience/],
      [{ audience: [''] }, /an audience must have/],
      [{ audience: ['x'.repeat(3000)] }, /an audience must have/],
      [{ audience: ['db'], spiffeId: 'web' }, /not a SPIFFE ID/],
    ] as const) {
      await assert.rejects(
        fetchJwt(started, request as MessageInitShape<typeof JWTSVIDRequestSchema>),
        refused(status.INVALID_ARGUMENT, message),
      );
    }
    assert.equal(started.issued.length, 0);
  });
});

onSiteAndAgent('FetchJWTBundles', (host) => {
  test('tells our own keys at once, and every change of them', async (t) => {
    const started = await host.site(t);
    const { authority } = started;
    await putEntry(started.store, 'web');
    const stream = jwtBundles(t, started);
    const own = authority.jwtSigner.keyId;
    assert.deepEqual(await stream.next(), { 'spiffe://lubeck.example': [own] });
    const { id } = await authority.prepare('jwt', noAudit);
    const next = await stream.next();
    assert.deepEqual(next['spiffe://lubeck.example']?.toSorted(), [own, id].toSorted());
  });

  test('tells the keys of others as far as the workload may trust them', async (t) => {
    const started = await host.site(t);
    const bruges = await openAuthority('bruges.example', started.clock);
    await putFederation(started.store, bruges);
    await putEntry(started.store, 'web', { federatesWith: ['bruges.example'] });
    const stream = jwtBundles(t, started);
    assert.deepEqual((await stream.next())['spiffe://bruges.example'], [bruges.jwtSigner.keyId]);
    await putEntry(started.store, 'web');
    assert.deepEqual(Object.keys(await stream.next()), ['spiffe://lubeck.example']);
  });

  test('is not pushed when only X.509 authorities change, and the other way round', async (t) => {
    const started = await host.site(t);
    const { authority } = started;
    await putEntry(started.store, 'web');
    const jwt = jwtBundles(t, started);
    const x509 = fetchBundles(started.socket);
    t.after(() => x509.close());
    await jwt.next();
    await x509.next();
    await authority.prepare('x509', noAudit);
    await x509.next();
    await authority.prepare('jwt', noAudit);
    // Had it been told of the first change too, this one would be the state of that.
    assert.equal((await jwt.next())['spiffe://lubeck.example']?.length, 2);
    assert.equal(x509.waiting, 0);
  });

  test('refuses a process that no entry matches', async (t) => {
    assert.equal((await jwtBundles(t, await host.site(t)).end()).code, status.PERMISSION_DENIED);
  });

  test('and the X.509 bundles leave out a trust domain that has none of their kind', async (t) => {
    const started = await host.site(t);
    const bruges = await openAuthority('bruges.example', started.clock);
    const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const bundle = encodeSpiffeBundle(
      new Bundle(bruges.trustDomain, [], [{ keyId: 'k', publicKey }]),
      { sequence: 1, refreshHintSeconds: 60 },
    );
    await put(started.store, 'spiffefederations', 'bruges.example', {
      spec: { bundleSource: { static: { bundle } }, quarantined: false },
      status: { bundle },
    });
    await putEntry(started.store, 'web', { federatesWith: ['bruges.example'] });
    const x509 = fetchBundles(started.socket);
    t.after(() => x509.close());
    assert.deepEqual(Object.keys((await x509.next()).bundles), ['spiffe://lubeck.example']);
    assert.deepEqual((await jwtBundles(t, started).next())['spiffe://bruges.example'], ['k']);
  });
});

onSiteAndAgent('ValidateJWTSVID', (host) => {
  const web = SpiffeId.parse('spiffe://lubeck.example/web');
  const tokenOf = async (
    { clock }: StartedHost,
    authority: Awaited<ReturnType<typeof openAuthority>>,
    subject = web,
  ): Promise<string> => {
    const { token } = await signJwtSvid({
      key: authority.jwtSigner,
      trustDomain: authority.trustDomain,
      subject,
      audience: ['db'],
      issuer: 'https://lubeck.example',
      nowMs: clock.now(),
    });
    return token;
  };

  test('tells whom a token names, with all of its claims', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    const { spiffeId, claims } = await validate(started, await tokenOf(started, started.authority));
    assert.equal(spiffeId, web.toString());
    assert.equal(claims?.['sub'], web.toString());
    assert.deepEqual(claims['aud'], ['db']);
    assert.equal(claims['iss'], 'https://lubeck.example');
    assert.equal(typeof claims['exp'], 'number');
  });

  test('believes a token of another trust domain only while the caller may trust that', async (t) => {
    const started = await host.site(t);
    const bruges = await openAuthority('bruges.example', started.clock);
    await putFederation(started.store, bruges);
    const token = await tokenOf(started, bruges, SpiffeId.parse('spiffe://bruges.example/db'));
    await putEntry(started.store, 'web');
    await assert.rejects(
      validate(started, token),
      refused(status.INVALID_ARGUMENT, /no usable bundle of its trust domain bruges\.example/),
    );
    await putEntry(started.store, 'web', { federatesWith: ['*'] });
    assert.equal((await validate(started, token)).spiffeId, 'spiffe://bruges.example/db');
  });

  test('names the rule that a token breaks, and counts it', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    const token = await tokenOf(started, started.authority);
    await assert.rejects(
      validate(started, token, 'cache'),
      refused(status.INVALID_ARGUMENT, /audience; JWT-SVID §3\.2/),
    );
    await assert.rejects(
      validate(started, 'not a token'),
      refused(status.INVALID_ARGUMENT, /serialization/),
    );
    assert.match(
      started.metrics.expose(),
      /hansa_workload_jwt_svids_validated_total\{result="audience"\} 1\n/,
    );
  });

  test('refuses a request without token or audience', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    await assert.rejects(validate(started, ''), refused(status.INVALID_ARGUMENT, /has no svid/));
    await assert.rejects(
      validate(started, 'x', ''),
      refused(status.INVALID_ARGUMENT, /has no audience/),
    );
  });

  test('refuses a process that no entry matches', async (t) => {
    const started = await host.site(t);
    await assert.rejects(
      validate(started, await tokenOf(started, started.authority)),
      refused(status.PERMISSION_DENIED, /No identity/),
    );
  });
});
