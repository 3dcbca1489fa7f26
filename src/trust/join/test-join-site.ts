// For tests only: the join service on a real TLS listener with an in-memory store, and a client that a
// test controls step by step.

import { create, toBinary } from '@bufbuild/protobuf';
import { generateKeyPairSync, hash, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { connect as tlsConnect, type TLSSocket } from 'node:tls';
import { Answers } from '../../server/http/answers.ts';
import { RegisterUsingSPIFFEMethodRequestSchema } from '../../../proto/gen/join_pb.ts';
import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { systemRandom } from '../../core/clock/system.ts';
import {
  BundleTable,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import type { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { BundlePublisher } from '../../core/identity/bundle/published-bundle.ts';
import { generateP256, PublicKey, exportPkcs8 } from '../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import { guardServer, svidServerOptions, swapCertificate } from '../../core/identity/tls/server.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { FederationRoute } from '../../core/plane/route.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { decodeStatusMessage } from '../../core/rpc/status.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { FederationDispatcher } from '../../server/listeners/federation-listener.ts';
import { Limits } from '../../server/http/limits.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { bundleRoutes } from '../federation/bundle-endpoint.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { MovableClock, openAuthority } from '../workload/test-workload-site.ts';
import { joinRoutes } from './join-routes.ts';
import { JoinService, type JoinServiceParts } from './join-service.ts';
import { type MemberLimits, Members } from './members.ts';
import { poolVerify, type Verify } from '../../core/identity/x509/verify-queue.ts';
import { signTranscript } from './proof.ts';
import { TokenBook } from './token-book.ts';
import { exporterBytes, exporterLabel, joinTranscript, type JoinWish } from './transcript.ts';
import { paths, readAnswer } from './wire.ts';
import { silentLog } from '../../core/log/test-log.ts';

export const bruges = forgeRoot('bruges.example');
export const runner = forgeLeaf(bruges, 'spiffe://bruges.example/ci/runner');

export const ciToken: JoinToken['spec'] = {
  method: 'spiffe',
  roles: ['bot', 'agent'],
  botName: 'ci',
  spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
};

/** High limits, because tests are rejected often from one address. */
const noLimit = { burst: 1_000_000, perSecond: 1 };

/** Stores the object without the checks of a writer. */
export async function putObject(
  store: Store,
  collection: string,
  object: object,
  name = (object as { readonly metadata?: { readonly name?: string } }).metadata?.name ?? '',
): Promise<void> {
  const bytes = Buffer.from(JSON.stringify(object));
  await store.commit({ put: [{ collection, name, encode: () => bytes }] });
}

export async function makeSecret(
  { routes }: Pick<TestJoinSite, 'routes'>,
  token: string,
): Promise<string> {
  const route = routes.find(({ path }) => path.endsWith('/secrets/{name}'));
  const answer = await route?.handle({ params: { name: token }, caller: socketOwner } as never);
  return (JSON.parse(String(answer?.body)) as { secret: string }).secret;
}

export interface JoinSiteOptions extends Pick<JoinServiceParts, 'refusalRates' | 'verify'> {
  readonly limits?: Partial<MemberLimits>;
  /** Makes the site another replica of this one. */
  readonly replicaOf?: {
    readonly clock: MovableClock;
    readonly database: MemoryDatabase;
    readonly authority: SiteAuthority;
  };
}

export async function joinSite(options: JoinSiteOptions = {}) {
  const clock = options.replicaOf?.clock ?? new MovableClock();
  const database = options.replicaOf?.database ?? new MemoryDatabase();
  const store = await openStore({ driver: 'memory', database }, { clock });
  const federate = (name: string): Promise<void> =>
    putObject(store, 'spiffefederations', {
      metadata: { name, uid: `uid-of-${name}` },
      spec: { bundleSource: { static: { bundle: '{}' } } },
    });
  await federate('bruges.example');
  const authority = options.replicaOf?.authority ?? (await openAuthority('lubeck.example', clock));
  const bundles = new BundleTable().set('bruges.example', bruges);
  const denials: AuditDraft[] = [];
  const records: AuditDraft[] = [];
  const record = (draft: AuditDraft) => {
    records.push(draft);
    return { encode: () => Buffer.from('{}') };
  };
  const audit = {
    record,
    deny: (draft: AuditDraft) => denials.push(draft),
    later: (draft: AuditDraft) => records.push(draft),
  };
  const metrics = new MetricsRegistry();
  const writer = new ResourceWriter({
    store,
    clock,
    random: systemRandom,
    admit: () => [],
    auditRow: auditWrites({ record: () => ({ encode: () => Buffer.from('{}') }) }),
  });
  const resources = <R extends Resource>(kind: Kind) =>
    resourceClient<R>(kind, { store, writer, clock });
  const members = new Members(store, clock, options.limits);
  const tokens = new TokenBook(store);
  /** The verifications by node:crypto, in order: digest and kind of key. */
  const checks: string[] = [];
  const verify: Verify = (digest, data, key, signature) => {
    const object = 'key' in key ? key.key : key;
    checks.push(
      `${digest} ${object.asymmetricKeyType} ${object.asymmetricKeyDetails?.namedCurve ?? ''}`,
    );
    return (options.verify ?? poolVerify)(digest, data, key, signature);
  };
  const federationState = new StoreFederationState(
    store,
    new FederatedBundles(store, authority, clock),
  );
  const { trustDomain } = authority;
  const service = new JoinService({
    trustDomain,
    clock,
    random: systemRandom,
    log: silentLog,
    metrics,
    audit,
    authority,
    bundles,
    resources,
    store,
    members,
    tokens,
    federationState,
    verify,
    refusalRates: options.refusalRates ?? { source: noLimit, network: noLimit },
  });
  // These tests do not check timeouts, and a busy machine may be slow.
  const patient: Clock = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    timer: () => ({ cancel: () => undefined }),
  };
  const front = new FederationDispatcher({
    answers: new Answers(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
    clock: patient,
    random: systemRandom,
    log: silentLog,
    metrics,
    limits: new Limits({ maxConcurrentRequests: 1000, maxWatches: 0, requestsPerSecond: 0 }, clock),
    bodyWithinMs: 60_000,
    bundles,
    routes: bundleRoutes(new BundlePublisher(store, authority)).filter(
      (each): each is FederationRoute => each.listener === 'federation',
    ),
    rpcs: service.rpcs,
    denied: () => undefined,
  });
  const siteKey = await generateP256(systemRandom);
  const credential = async () => {
    const { chain } = await authority.issueSite({ publicKey: PublicKey.of(siteKey) });
    return {
      certificateChain: chain.map((der) => certificatePem(der)).join(''),
      privateKey: privateKeyPem(exportPkcs8(siteKey)),
    };
  };
  const server = createSecureServer(
    { ...svidServerOptions(await credential()), allowHTTP1: true },
    front.listener,
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sessions: ClientHttp2Session[] = [];
  const memberParts = { store, clock, audit, trustDomain, members, federationState };
  const routes = joinRoutes({ ...memberParts, random: systemRandom, tokens });
  return {
    clock,
    database,
    store,
    authority,
    bundles,
    denials,
    records,
    metrics,
    members,
    checks,
    routes,
    memberParts,
    federate,
    resources,
    tokens,
    url: new URL(`https://127.0.0.1:${port}`),
    /** Moves the clock, and renews the certificate of the server. */
    pass: async (ms: number): Promise<void> => {
      clock.offsetMs += ms;
      clock.monotonicOffsetMs += ms;
      swapCertificate(server, await credential());
    },
    createToken: (name: string, spec: JoinToken['spec']) =>
      resources<JoinToken>(joinTokenKind).create({ name, spec }, { controller: 'test' }),
    tokenStatus: async (name: string) =>
      (await resources<JoinToken>(joinTokenKind).get(name))?.status,
    dial: async (localAddress = '127.0.0.1'): Promise<ClientHttp2Session> => {
      // net accepts it, but the types of tls lack it.
      const from = { localAddress };
      const session = connect(`https://127.0.0.1:${port}`, {
        createConnection: () =>
          tlsConnect({
            host: '127.0.0.1',
            port,
            rejectUnauthorized: false,
            ALPNProtocols: ['h2'],
            ...from,
          }),
      });
      session.on('error', () => undefined);
      sessions.push(session);
      // The site has seen the end of the handshake too, for which it gives so much time.
      await once(session, 'remoteSettings');
      return session;
    },
    stop: async () => {
      for (const session of sessions) session.destroy();
      server.close();
      await store.close();
    },
  };
}

export type TestJoinSite = Awaited<ReturnType<typeof joinSite>>;

export function exporterOf(session: ClientHttp2Session): Buffer {
  return (session.socket as TLSSocket).exportKeyingMaterial(
    exporterBytes,
    exporterLabel,
    Buffer.alloc(0),
  );
}

export type Outcome =
  | { readonly joined: string; readonly generation: bigint }
  | { readonly status: string; readonly message: string };

/** One stream, by hand. */
export class RawCall {
  readonly stream: ClientHttp2Stream;
  readonly #reader = new FrameReader(1_000_000);
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #headers: Record<string, unknown> = {};

  constructor(session: ClientHttp2Session, path: string = paths.spiffe) {
    this.stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    this.stream.on('error', () => undefined);
    this.stream.on('response', (headers) => Object.assign(this.#headers, headers));
    this.stream.on('trailers', (headers) => Object.assign(this.#headers, headers));
    this.#chunks = (this.stream as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  }

  send(message: Uint8Array): void {
    this.stream.write(encodeFrame(message));
  }

  /** A message, or undefined if the call has ended. */
  async read(): Promise<Buffer | undefined> {
    for (;;) {
      const message = this.#reader.take();
      if (message !== undefined) return message;
      const next = await this.#chunks.next();
      if (next.done === true) {
        this.stream.close();
        return undefined;
      }
      this.#reader.push(next.value);
    }
  }

  async nonce(): Promise<Uint8Array> {
    const message = await this.read();
    const answer = message && readAnswer(message);
    if (answer === undefined || !('nonce' in answer))
      throw new Error(`no challenge: ${this.status}`);
    return answer.nonce;
  }

  async outcome(): Promise<Outcome> {
    const message = await this.read();
    if (message === undefined) {
      return {
        status: this.status,
        message: decodeStatusMessage((this.#headers['grpc-message'] as string | undefined) ?? ''),
      };
    }
    const answer = readAnswer(message);
    if (!('certs' in answer)) throw new Error('a challenge came twice');
    return { joined: answer.certs.spiffeId, generation: answer.certs.generation };
  }

  get status(): string {
    return String(this.#headers['grpc-status']);
  }
}

export interface Attempt {
  readonly wish?: Partial<JoinWish>;
  /** The presented chain, the leaf first, and the signing key. */
  readonly chain?: readonly Uint8Array[];
  readonly signWith?: KeyObject;
  readonly publicKey?: Uint8Array;
  readonly clientNonce?: Uint8Array;
  /** Replace the correct values. */
  readonly exporter?: Uint8Array;
  readonly transcript?: (right: Buffer) => Uint8Array;
  readonly signature?: (right: Buffer) => Uint8Array;
}

const wish: JoinWish = { token: 'ci-runners', role: 'bot', name: '' };
const schema = RegisterUsingSPIFFEMethodRequestSchema;

export const ownKey = generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey;

export function initMessage(attempt: Attempt, clientNonce: Uint8Array): Uint8Array {
  const [x509Svid = Buffer.alloc(0), ...intermediates] = attempt.chain ?? [runner.der];
  const publicKey = attempt.publicKey ?? PublicKey.of(ownKey).spki;
  return toBinary(
    schema,
    create(schema, {
      payload: {
        case: 'init',
        value: {
          joinRequest: { ...wish, ...attempt.wish, publicKey, clientNonce },
          x509Svid,
          intermediates,
        },
      },
    }),
  );
}

export function solutionMessage(signedNonce: Uint8Array): Uint8Array {
  const payload = { case: 'challengeSolution', value: { signedNonce } } as const;
  return toBinary(schema, create(schema, { payload }));
}

/** A complete join with the method spiffe, valid except for the changes of the test. */
export async function attemptJoin(
  session: ClientHttp2Session,
  attempt: Attempt = {},
): Promise<Outcome> {
  const call = new RawCall(session);
  const clientNonce = attempt.clientNonce ?? (await systemRandom.bytes(32));
  call.send(initMessage(attempt, clientNonce));
  const first = await call.read();
  if (first === undefined) return { status: call.status, message: '' };
  const answer = readAnswer(first);
  if (!('nonce' in answer)) throw new Error('an SVID for nothing');
  const leaf = attempt.chain === undefined ? runner.der : (attempt.chain[0] ?? Buffer.alloc(0));
  const right = joinTranscript(
    { ...wish, ...attempt.wish },
    {
      method: paths.spiffe,
      trustDomain: 'lubeck.example',
      publicKey: attempt.publicKey ?? PublicKey.of(ownKey).spki,
      credential: hash('sha256', leaf, 'buffer'),
      clientNonce,
      serverNonce: answer.nonce,
      exporter: attempt.exporter ?? exporterOf(session),
    },
  );
  const transcript = attempt.transcript?.(right) ?? right;
  const signature = signTranscript(transcript, attempt.signWith ?? runner.key);
  call.send(solutionMessage(attempt.signature?.(signature) ?? signature));
  return await call.outcome();
}

export function svidOf(leaf: Forged, ...above: readonly Forged[]): Attempt {
  return { chain: [leaf, ...above].map(({ der }) => der), signWith: leaf.key };
}
