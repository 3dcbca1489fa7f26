// One peer of the load generator (peer-fleet.ts): a trust domain with its own authority, SVID and audit log. It
// accepts an invitation, and sends and answers heartbeats, with the code that a site uses for these. It has no
// store on disk and no controllers.

import { generateKeyPairSync } from 'node:crypto';
import { createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { Audit } from '../src/core/audit/log.ts';
import { noteSigner } from '../src/core/audit/note.ts';
import { PublicLog } from '../src/core/audit/public-log.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { SiteAuthority } from '../src/core/identity/authority/authority.ts';
import { MemoryVault } from '../src/core/identity/authority/test-vault.ts';
import type { Bundle } from '../src/core/identity/bundle/bundle.ts';
import {
  encodeSpiffeBundle,
  parseSpiffeBundle,
} from '../src/core/identity/bundle/spiffe-bundle.ts';
import { KeptConnections } from '../src/core/identity/tls/kept-connections.ts';
import { contextOptionsOf, type TlsCredential } from '../src/core/identity/tls/options.ts';
import { TlsTransport } from '../src/core/identity/tls/tls-transport.ts';
import { verifySite } from '../src/core/identity/tls/verify-site.ts';
import { Certificate } from '../src/core/identity/x509/certificate.ts';
import { exportPkcs8, generateP256, PublicKey } from '../src/core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../src/core/identity/x509/pem.ts';
import { createLog } from '../src/core/log/json-log.ts';
import { MetricsRegistry } from '../src/core/metrics/registry.ts';
import { openStore } from '../src/core/store/open.ts';
import { Acceptor } from '../src/peering/handshake/acceptor.ts';
import { parseInvitation } from '../src/peering/handshake/invitation.ts';
import {
  encodeMessage,
  type Heartbeat,
  maxHeartbeatBytes,
  parseHeartbeat,
  paths,
} from '../src/peering/messages.ts';
import { PeerClocks } from '../src/peering/peers/peer-clocks.ts';
import { ReportedFeatures } from '../src/peering/peers/reported-features.ts';
import { defaultPeeringSettings } from '../src/peering/settings.ts';
import type { LogPart } from '../src/peering/witness/log-part.ts';
import { Witness } from '../src/peering/witness/witness.ts';

/** No peer fetches a bundle again while the bench runs: what is measured are heartbeats. */
const refreshHintSeconds = 24 * 3600;
/** The certificates of the peers differ in who signed them. */
const leafKey = await generateP256(systemRandom);

interface Site {
  readonly trustDomain: TrustDomain;
  readonly url: URL;
  readonly bundle: Bundle;
  readonly sequence: number;
}

export class FleetPeer {
  readonly trustDomain: TrustDomain;
  /** What its bundle endpoint serves. */
  readonly document: string;
  readonly secureContext: SecureContext;
  readonly #acceptor: Acceptor;
  readonly #connections: KeptConnections;
  readonly #audit: Audit;
  readonly #publicLog: PublicLog;
  readonly #witness: Witness;
  readonly #clocks = new PeerClocks(systemClock);
  readonly #features = new ReportedFeatures();
  readonly #verified = new WeakSet<TLSSocket>();
  #site: Site | undefined;

  static async open(name: string, url: string): Promise<FleetPeer> {
    const trustDomain = TrustDomain.parse(name);
    const authority = await SiteAuthority.open({
      trustDomain,
      vault: new MemoryVault(),
      clock: systemClock,
      random: systemRandom,
    });
    const { chain } = await authority.issueSite({ publicKey: PublicKey.of(leafKey) });
    const credential: TlsCredential = {
      certificateChain: chain.map((der) => certificatePem(der)).join(''),
      privateKey: privateKeyPem(exportPkcs8(leafKey)),
    };
    const store = await openStore({ driver: 'memory' }, { clock: systemClock });
    const log = createLog({
      sink: { write: (line: string) => process.stderr.write(`${name}: ${line}`) },
      clock: systemClock,
      level: 'warn',
      format: 'text',
    });
    const signer = noteSigner(name, generateKeyPairSync('ed25519').privateKey);
    const parts = { store, clock: systemClock, signer, log, metrics: new MetricsRegistry() };
    const audit = new Audit(parts);
    await audit.start();
    const actor = { user: 'system:bench', groups: [], via: 'controller' } as const;
    const row = audit.record({ actor, verb: 'create', name, outcome: 'allow' });
    await store.commit({ audit: [row] });
    await audit.checkpoint();
    const publicLog = new PublicLog({ audit, ...parts });
    const witness = new Witness({
      trustDomain,
      store,
      clock: systemClock,
      log,
      audit,
      publicLog,
      // It has no objects, so that its findings are only in the records of the witness.
      peers: { note: async () => undefined },
      passesOn: false,
    });
    return new FleetPeer({ trustDomain, url, authority, credential, audit, publicLog, witness });
  }

  private constructor(parts: {
    readonly trustDomain: TrustDomain;
    readonly url: string;
    readonly authority: SiteAuthority;
    readonly credential: TlsCredential;
    readonly audit: Audit;
    readonly publicLog: PublicLog;
    readonly witness: Witness;
  }) {
    const { trustDomain, url, authority, credential, witness } = parts;
    this.trustDomain = trustDomain;
    this.document = encodeSpiffeBundle(authority.bundle, { sequence: 1, refreshHintSeconds });
    this.secureContext = createSecureContext(contextOptionsOf(credential));
    this.#audit = parts.audit;
    this.#publicLog = parts.publicLog;
    this.#witness = witness;
    const transport = new TlsTransport({ clock: systemClock, credential: () => credential });
    this.#acceptor = new Acceptor({
      trustDomain,
      transport,
      clock: systemClock,
      random: systemRandom,
      settings: defaultPeeringSettings,
      own: authority,
      document: async () => this.document,
      advertiseURL: () => url,
      introduction: async (to) => ({ logIntroduction: await witness.introduction(to) }),
    });
    this.#connections = new KeptConnections({
      transport,
      clock: systemClock,
      bundles: { bundleFor: () => this.#site?.bundle },
      mayCall: () => true,
    });
  }

  /** How many events of this peer's log the site has cosigned. */
  get cosigned(): number {
    return this.#publicLog.cosignedBy(this.#site?.trustDomain.name ?? '');
  }

  /** What is wrong with the log of the site, as this peer sees it. */
  get finding(): string | undefined {
    return this.#witness.logs.get(this.#site?.trustDomain.name ?? '')?.value.finding?.message;
  }

  /** What `hansa peer accept` sends to the other site. */
  async accept(line: string): Promise<void> {
    const invitation = parseInvitation(line, systemClock.now());
    const { trustDomain, url, secret } = invitation;
    await this.#acceptor.preview(invitation);
    const told = await this.#acceptor.redeem(invitation, secret, new AbortController().signal);
    if (told.state !== 'accepted') throw new Error(`${this.trustDomain.name} is ${told.state}`);
    const { bundle, sequence = 0 } = parseSpiffeBundle(told.document, trustDomain);
    this.#site = { trustDomain, url, bundle, sequence };
    const { name } = trustDomain;
    await this.#witness.introduced({ name, uid: name }, told.logIntroduction ?? '');
  }

  /** Sends a heartbeat and handles the answer. */
  async beat(): Promise<void> {
    const site = this.#accepted;
    const { name } = site.trustDomain;
    const message = await this.#message(site, this.#witness.part(name));
    const { status, body } = await this.#connections.call(
      site,
      {
        method: 'POST',
        path: paths.heartbeat,
        headers: { 'content-type': 'application/json' },
        body: encodeMessage(message),
      },
      {
        maxBytes: maxHeartbeatBytes,
        timeoutMs: defaultPeeringSettings.callTimeoutMs,
        idempotent: true,
      },
    );
    if (status !== 200)
      throw new Error(`${name} refused a heartbeat with ${status}: ${body.toString()}`);
    await this.#heard(site, parseHeartbeat(body, site.trustDomain, this.trustDomain), message.log);
  }

  /** The answer to a heartbeat of the site, which it sent over this connection. */
  async answer(body: Buffer, socket: TLSSocket): Promise<Buffer> {
    const site = this.#accepted;
    this.#verify(site, socket);
    const heartbeat = parseHeartbeat(body, site.trustDomain, this.trustDomain);
    await this.#heard(site, heartbeat);
    const { name } = site.trustDomain;
    return encodeMessage(await this.#message(site, this.#witness.answer(name, heartbeat.log)));
  }

  async close(): Promise<void> {
    this.#connections.stop();
    await this.#publicLog.stop();
    await this.#audit.stop();
  }

  get #accepted(): Site {
    if (this.#site === undefined) throw new Error(`${this.trustDomain.name} has no peer`);
    return this.#site;
  }

  /** Once for each connection, as a site does. */
  #verify({ trustDomain, bundle }: Site, socket: TLSSocket): void {
    if (this.#verified.has(socket)) return;
    const der = socket.getPeerX509Certificate()?.raw;
    const chain = der === undefined ? [] : [Certificate.parse(der)];
    verifySite(trustDomain, chain, { bundleFor: () => bundle }, systemClock.now());
    this.#verified.add(socket);
  }

  async #message({ trustDomain, bundle, sequence }: Site, log: Promise<LogPart>) {
    const { name } = trustDomain;
    return {
      contractVersion: 1,
      bundleSequence: 1,
      offers: [],
      holds: { sequence, hash: bundle.hash },
      log: await log,
      features: this.#features.part(name),
      clock: this.#clocks.part(name),
    } satisfies Heartbeat;
  }

  async #heard({ trustDomain }: Site, heartbeat: Heartbeat, sent?: LogPart): Promise<void> {
    const { name } = trustDomain;
    if (heartbeat.clock !== undefined) this.#clocks.heard(name, heartbeat.clock);
    this.#features.heard(name, heartbeat.features);
    await this.#witness.heard({ name, uid: name }, heartbeat.log, sent);
  }
}
