// core/identity holds what every plane needs of PKI: reading and writing certificates, keys and
// signers, the site's authority, the SVID path validator, and TLS servers and clients that choose
// trust by trust domain. No plane's policy lives here: who may have which identity is decided
// above; rotation, bundles on the wire and the Workload API belong to the trust plane.
//
// This file is the site's authority: the root of its trust domain, made at first start, and the
// SVIDs that it issues. It issues leaves only, never an intermediate CA: whoever held one could
// sign this trust domain's own identities.

import type { KeyObject } from 'node:crypto';
import { SpiffeId } from '../../api/spiffe-id.ts';
import type { TrustDomain } from '../../api/trust-domain.ts';
import type { Clock, Random } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { AuditRow } from '../store/store.ts';
import type { AuthorityEntry, AuthorityVault } from './authority-record.ts';
import { decodeAuthorities, encodeAuthorities } from './authority-record.ts';
import { buildCertificate, emptyName, name } from './build-certificate.ts';
import { Bundle } from './bundle.ts';
import { Certificate } from './certificate.ts';
import { keyUsageBits } from './extensions.ts';
import { generateP256, type PublicKey } from './keys.ts';
import { lintLeaf, lintSigning } from './lint.ts';
import { SerialNumbers } from './serial-numbers.ts';
import { LocalSigner, type Signer } from './signer.ts';

/** An SVID lives an hour at most: what is stolen is soon worthless, without lists of revoked ones. */
export const maxTtlSeconds = 3600;
/** Until authorities rotate by themselves, a root must outlive the attention of its operator. */
const defaultRootTtlSeconds = 365 * 24 * 3600;
/** Others' clocks may be behind by this much and still take a fresh certificate. */
const backdateMs = 60_000;

/** Below `/hansa/`, each with its own issuer. */
export type ReservedRole = 'agent' | 'bot' | 'user' | 'child';

export interface LeafRequest {
  readonly publicKey: PublicKey;
  /** From now on; an hour where it is not given, which is also the most. */
  readonly ttlSeconds?: number;
}

export interface NamedLeafRequest extends LeafRequest {
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
}

export interface WorkloadRequest extends NamedLeafRequest {
  readonly spiffeId: SpiffeId;
}

export interface IssuedSvid {
  readonly id: SpiffeId;
  /** DER, the leaf first; never the root, which peers have from the bundle. */
  readonly chain: readonly Buffer[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly serialHex: string;
}

/** The right to issue below one reserved prefix, to be handed to the one part that may. */
export interface ReservedIssuer {
  readonly role: ReservedRole;
  /** `name` is one segment of a path. Throws HANSA_BAD_REQUEST where it is not. */
  issue(name: string, request: LeafRequest): Promise<IssuedSvid>;
}

export interface AuthorityOptions {
  readonly trustDomain: TrustDomain;
  readonly vault: AuthorityVault;
  readonly clock: Clock;
  readonly random: Random;
  readonly rootTtlSeconds?: number;
  /** P-256 by default. Simulation takes Ed25519, whose signatures are the same in every run. */
  readonly generateKey?: (random: Random) => Promise<KeyObject>;
}

interface ActiveAuthority {
  readonly certificate: Certificate;
  readonly signer: Signer;
}

/** Issuing is safe to call in any number at once, and fails where the authority itself has expired. */
export class SiteAuthority {
  readonly trustDomain: TrustDomain;
  #entries: readonly AuthorityEntry[];
  #bundle: Bundle;
  #changing: Promise<unknown> = Promise.resolve();
  readonly #options: AuthorityOptions;
  readonly #active: ActiveAuthority;
  readonly #clock: Clock;
  readonly #serials: SerialNumbers;

  private constructor(options: AuthorityOptions, entries: readonly AuthorityEntry[]) {
    this.trustDomain = options.trustDomain;
    this.#clock = options.clock;
    this.#serials = new SerialNumbers(options.random);
    this.#options = options;
    this.#entries = entries;
    this.#bundle = bundleOf(options.trustDomain, entries);
    const active = entries.find((entry) => entry.state === 'active') as AuthorityEntry;
    const signer = new LocalSigner(active.privateKey);
    if (!signer.publicKey.spki.equals(active.certificate.spki)) {
      throw new HansaError(
        'HANSA_STORE_CORRUPT',
        "Cannot load the site's authority: its key is not that of its certificate. Restore the data folder from a backup.",
      );
    }
    this.#active = { certificate: active.certificate, signer };
  }

  /** Loads the authority, or makes one where there is none. Of several that start at once, one makes it. */
  static async open(options: AuthorityOptions): Promise<SiteAuthority> {
    for (;;) {
      const record = await options.vault.load();
      if (record !== undefined) return SiteAuthority.#fromRecord(options, record);
      const entry = await makeRoot(options);
      const made = encodeAuthorities(options.trustDomain.name, [entry]);
      try {
        if (await options.vault.create(made)) return new SiteAuthority(options, [entry]);
      } finally {
        made.fill(0);
      }
    }
  }

  static #fromRecord(options: AuthorityOptions, record: Buffer): SiteAuthority {
    try {
      const { trustDomain, entries } = decodeAuthorities(record);
      if (trustDomain !== options.trustDomain.name) {
        throw new HansaError(
          'HANSA_CONFIG_INVALID',
          `Cannot start as trust domain ${options.trustDomain.name}: this data folder belongs to ${trustDomain}. Start it with that trust domain, or with another --data-dir.`,
        );
      }
      return new SiteAuthority(options, entries);
    } finally {
      record.fill(0);
    }
  }

  /** What this site's SVIDs are verified against. Another one as soon as the authorities change. */
  get bundle(): Bundle {
    return this.#bundle;
  }

  /**
   * Makes a new root that is published from now on and signs nothing yet, so that everyone trusts it
   * before it does. There is one at a time: HANSA_ALREADY_EXISTS. `audit` tells the log of it, in the
   * same commit.
   */
  prepare(audit: (made: Certificate) => readonly AuditRow[]): Promise<Certificate> {
    const made = this.#changing.then(() => this.#prepare(audit));
    this.#changing = made.catch(() => undefined);
    return made;
  }

  async #prepare(audit: (made: Certificate) => readonly AuditRow[]): Promise<Certificate> {
    const known = this.#entries.find(({ state }) => state === 'prepared');
    if (known !== undefined) {
      throw new HansaError(
        'HANSA_ALREADY_EXISTS',
        `Cannot prepare an authority: ${known.certificate.fingerprint.slice(0, 16)} is prepared already.`,
      );
    }
    const entry: AuthorityEntry = { ...(await makeRoot(this.#options)), state: 'prepared' };
    const entries = [...this.#entries, entry];
    const record = encodeAuthorities(this.trustDomain.name, entries);
    try {
      await this.#options.vault.replace(record, audit(entry.certificate));
    } finally {
      record.fill(0);
    }
    this.#entries = entries;
    this.#bundle = bundleOf(this.trustDomain, entries);
    return entry.certificate;
  }

  /** The certificate that signs now. */
  get certificate(): Certificate {
    return this.#active.certificate;
  }

  /** An SVID of a workload; `/hansa` and what is below has issuers of its own and is refused. */
  issue(request: WorkloadRequest): Promise<IssuedSvid> {
    if (request.spiffeId.isReserved) {
      return Promise.reject(
        new HansaError(
          'HANSA_FORBIDDEN',
          `Cannot issue ${request.spiffeId.toString()}: /hansa and everything below it is reserved. Choose another path.`,
        ),
      );
    }
    return this.#issue(request.spiffeId, request);
  }

  /** The site itself; DNS names and addresses let clients that know no SPIFFE verify its listeners. */
  issueSite(request: NamedLeafRequest): Promise<IssuedSvid> {
    return this.#issue(SpiffeId.of(this.trustDomain, 'hansa', 'site'), request);
  }

  reservedIssuer(role: ReservedRole): ReservedIssuer {
    return {
      role,
      issue: async (segment, request) => {
        // A slash would reach below another's name.
        if (segment === '' || segment.includes('/')) {
          throw new HansaError(
            'HANSA_BAD_REQUEST',
            `Cannot issue an SVID for ${role} ${JSON.stringify(segment.slice(0, 80))}: a name is one segment of a path, of letters, digits, dots, dashes and underscores.`,
          );
        }
        const { publicKey, ttlSeconds = maxTtlSeconds } = request;
        const id = SpiffeId.of(this.trustDomain, 'hansa', role, segment);
        return this.#issue(id, { publicKey, ttlSeconds });
      },
    };
  }

  async #issue(id: SpiffeId, request: NamedLeafRequest): Promise<IssuedSvid> {
    const { certificate: issuer, signer } = this.#active;
    const { ttlSeconds = maxTtlSeconds } = request;
    if (!(ttlSeconds >= 1 && ttlSeconds <= maxTtlSeconds)) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot issue ${id.toString()} for ${ttlSeconds} seconds: 1 to ${maxTtlSeconds} are accepted.`,
      );
    }
    const nowMs = Math.floor(this.#clock.now() / 1000) * 1000;
    if (nowMs >= issuer.notAfterMs) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot issue ${id.toString()}: the authority of ${this.trustDomain.name} expired at ${new Date(issuer.notAfterMs).toISOString()}. Check the clock, or rotate the authority.`,
      );
    }
    const serial = this.#serials.take() ?? (await this.#serials.draw());
    const notBeforeMs = Math.max(nowMs - backdateMs, issuer.notBeforeMs);
    const notAfterMs = Math.min(nowMs + Math.floor(ttlSeconds) * 1000, issuer.notAfterMs);
    const der = await buildCertificate(
      {
        serial,
        issuer: issuer.subject,
        subject: emptyName,
        notBeforeMs,
        notAfterMs,
        publicKey: request.publicKey,
        uris: [id.toString()],
        dnsNames: request.dnsNames,
        ipAddresses: request.ipAddresses,
        keyUsage: keyUsageBits.digitalSignature,
        authorityKeyId: signer.publicKey.keyId,
      },
      signer,
      (fields) => lintLeaf(fields, this.trustDomain),
    );
    return { id, chain: [der], notBeforeMs, notAfterMs, serialHex: serial.toString('hex') };
  }
}

function bundleOf(trustDomain: TrustDomain, entries: readonly AuthorityEntry[]): Bundle {
  return new Bundle(
    trustDomain,
    entries.map(({ certificate }) => certificate),
  );
}

async function makeRoot(options: AuthorityOptions): Promise<AuthorityEntry> {
  const { trustDomain, clock, random, rootTtlSeconds = defaultRootTtlSeconds } = options;
  const privateKey = await (options.generateKey ?? generateP256)(random);
  const signer = new LocalSigner(privateKey);
  const nowMs = Math.floor(clock.now() / 1000) * 1000;
  // Names differ from root to root, so that a chain tells under which it was issued.
  const subject = name('Hansa', `authority ${signer.publicKey.keyId.toString('hex', 0, 8)}`);
  const der = await buildCertificate(
    {
      serial: await new SerialNumbers(random).draw(),
      issuer: subject,
      subject,
      notBeforeMs: nowMs - backdateMs,
      notAfterMs: nowMs + rootTtlSeconds * 1000,
      publicKey: signer.publicKey,
      uris: [trustDomain.id],
      // It signs leaves only, so nothing that signs may stand below it.
      ca: { pathLength: 0 },
      keyUsage: keyUsageBits.keyCertSign | keyUsageBits.crlSign,
    },
    signer,
    (fields) => lintSigning(fields, trustDomain),
  );
  return { state: 'active', certificate: Certificate.parse(der), privateKey };
}
