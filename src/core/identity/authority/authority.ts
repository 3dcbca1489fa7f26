// The authorities of the site: creates them at the first start, changes their phases, and issues
// SVIDs with the active ones. It issues leaves only. It never issues an intermediate CA, because
// its holder could sign identities of this trust domain.

import { isDeepStrictEqual } from 'node:util';
import { timestamp } from '../../../api/object.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Clock } from '../../clock/clock.ts';
import { HansaError, hasCode, toHansaError } from '../../errors/error.ts';
import type { AuthorityAudit, AuthorityStep } from './audit.ts';
import {
  clockDoubt,
  activate,
  assertRoom,
  type AuthorityKind,
  clockSkewMs,
  isValidAt,
  maxTtlSeconds,
  type Phased,
  type PhaseStep,
  prepare,
  prune,
  replaceAtOnce,
  revoke,
  taint,
} from './phases.ts';
import { bundleOf, signingOf, viewsOf, withoutSpentKey } from './state.ts';
import type { AnyEntry, AuthorityView, JwtSigner, Signing } from './state.ts';
import {
  type AuthorityRecord,
  type AuthorityVault,
  decodeAuthorities,
  encodeAuthorities,
  type JwtEntry,
  type X509Entry,
} from './record.ts';
import { assemble } from '../x509/build-certificate.ts';
import type { Bundle } from '../bundle/bundle.ts';
import type { Certificate } from '../x509/certificate.ts';
import type { PublicKey } from '../x509/keys.ts';
import { type MakeOptions, makeJwt, makeX509 } from './make-authority.ts';
import { SerialNumbers } from '../x509/serial-numbers.ts';
import { upstreamRootIds } from './upstream.ts';

/** Below `/hansa/`, each with its own issuer. */
export type ReservedRole = 'agent' | 'bot' | 'user' | 'child';

export interface LeafRequest {
  readonly publicKey: PublicKey;
  /** Lifetime. The default and the maximum are one hour. */
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
  /** DER: the leaf, then the intermediates. Never the root, which peers have from the bundle. */
  readonly chain: readonly Buffer[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly serialHex: string;
  /** The id of the authority that signed it. */
  readonly authorityId: string;
}

/** The right to issue below one reserved prefix. Pass it only to the component that needs it. */
export interface ReservedIssuer {
  /** `name` is one segment of a path. Throws HANSA_BAD_REQUEST where it is not. */
  issue(name: string, request: LeafRequest): Promise<IssuedSvid>;
}

export interface AuthorityOptions extends MakeOptions {
  readonly vault: AuthorityVault;
  /** Until this time an operator confirmed the clock: see `clockDoubt`. */
  readonly clockTrustedUntilMs?: number | undefined;
  /** Audits changes that `open` makes: it replaces authorities that expired while the site was down, and adds kinds that an older version lacked. */
  readonly audit?: AuthorityAudit;
}

/** Attempts when another replica changes the record at the same time. */
const maxAttempts = 8;

const noNames: readonly string[] = [];

/**
 * Issuing is safe to call concurrently, and fails when the authority has expired. Changes run one at
 * a time, as compare-and-set on the record that any replica wrote last. A change takes effect here when
 * it is durable, and the same commit contains its audit records.
 */
export class SiteAuthority {
  readonly trustDomain: TrustDomain;
  #record: AuthorityRecord;
  #signing: Signing;
  #bundle: Bundle;
  #authorities: readonly AuthorityView[];
  #changing: Promise<unknown> = Promise.resolve();
  readonly #listeners = new Set<() => void>();
  #problem: string | undefined;
  readonly #options: AuthorityOptions;
  readonly #clock: Clock;
  readonly #serials: SerialNumbers;

  private constructor(options: AuthorityOptions, record: AuthorityRecord) {
    this.trustDomain = options.trustDomain;
    this.#clock = options.clock;
    this.#serials = new SerialNumbers(options.random);
    this.#options = options;
    this.#record = record;
    this.#signing = signingOf(options.trustDomain, record);
    this.#bundle = bundleOf(options.trustDomain, record);
    this.#authorities = viewsOf(record);
    // `problem` has the error.
    options.vault.watch?.(() => void this.reload().catch(() => undefined));
  }

  /**
   * Loads the authorities, or creates them at the first start. Rejects with HANSA_CLOCK_DOUBTFUL where
   * all have expired according to the clock. If several replicas start at once, one creates them.
   */
  static async open(options: AuthorityOptions): Promise<SiteAuthority> {
    for (;;) {
      const record = await loaded(options);
      if (record !== undefined) return SiteAuthority.#from(options, record);
      const first = { x509: [await makeX509(options)], jwt: [await makeJwt(options)] };
      const made = encodeAuthorities(options.trustDomain.name, first);
      try {
        if (await options.vault.create(made)) return new SiteAuthority(options, first);
      } finally {
        made.fill(0);
      }
    }
  }

  static async #from(options: AuthorityOptions, found: AuthorityRecord): Promise<SiteAuthority> {
    const { clock, clockTrustedUntilMs } = options;
    const doubt = clockDoubt(found.x509, clock.now(), clockTrustedUntilMs);
    // Before anything is written: when the clock is right again, nothing is lost.
    if (doubt !== undefined)
      throw new HansaError('HANSA_CLOCK_DOUBTFUL', `Cannot start: ${doubt}.`);
    const jwt = found.jwt.length === 0 ? [await makeJwt(options)] : found.jwt;
    const authority = new SiteAuthority(options, { ...found, jwt });
    const audit: AuthorityAudit = options.audit ?? (() => []);
    if (jwt !== found.jwt) await authority.#keepFirstJwt(audit);
    // A site that was down for long must be able to start. Peers already hold a prepared authority.
    for (const kind of ['x509', 'jwt'] as const) {
      const active = authority.#record[kind].find(({ state }) => state === 'active');
      if (active !== undefined && options.clock.now() >= active.notAfterMs) {
        await authority.replaceAtOnce(kind, { fresh: false }, audit);
      }
    }
    return authority;
  }

  /** The bundle that verifies this site's SVIDs. A new value whenever the authorities change. */
  get bundle(): Bundle {
    return this.#bundle;
  }

  /** The certificate that signs now. With an upstream authority, it is not itself in the bundle. */
  get certificate(): Certificate {
    return this.#signing.x509.certificate;
  }

  /** Fingerprints of the roots that would verify a new authority; none where they are not known yet. */
  upstreamRootIds(): Promise<readonly string[]> {
    return upstreamRootIds(this.#options.upstream);
  }

  /** The key that signs JWT-SVIDs now. Read it again for each token. */
  get jwtSigner(): JwtSigner {
    return this.#signing.jwt;
  }

  /** All of both kinds. The same list until something changes. */
  get authorities(): readonly AuthorityView[] {
    return this.#authorities;
  }

  /** Whether SVIDs of this authority must be replaced: it is tainted or was revoked. */
  isTainted(id: string): boolean {
    const known = this.#authorities.find((authority) => authority.id === id);
    return known === undefined || known.state === 'tainted';
  }

  /** Calls `listener` after every durable change, also of another replica. Returns how to stop. The listener must not throw. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Creates and publishes a new authority. Only one of a kind can be prepared: HANSA_ALREADY_EXISTS. */
  async prepare(kind: AuthorityKind, audit: AuthorityAudit): Promise<AuthorityView> {
    const make = once(() => this.#make(kind));
    const steps = await this.#change(
      kind,
      async (set, nowMs) => {
        // Checks first, to avoid creating a key in vain.
        assertRoom(set, nowMs);
        return prepare(set, await make(), nowMs);
      },
      audit,
    );
    return this.#view(steps);
  }

  /** Activates the prepared authority. Issued SVIDs stay valid. Throws HANSA_AUTHORITY_STATE. */
  async activate(
    kind: AuthorityKind,
    id: string | undefined,
    audit: AuthorityAudit,
  ): Promise<AuthorityView> {
    return this.#view(await this.#change(kind, (set, nowMs) => activate(set, id, nowMs), audit));
  }

  /** Taints an old authority; listeners of `onChange` then replace its SVIDs. Throws HANSA_AUTHORITY_STATE. */
  async taint(
    kind: AuthorityKind,
    id: string | undefined,
    audit: AuthorityAudit,
  ): Promise<AuthorityView> {
    return this.#view(await this.#change(kind, (set, nowMs) => taint(set, id, nowMs), audit));
  }

  /** Removes an authority from the bundle; resolves to its id. Throws HANSA_AUTHORITY_STATE. */
  async revoke(
    kind: AuthorityKind,
    id: string | undefined,
    audit: AuthorityAudit,
  ): Promise<string> {
    const steps = await this.#change(kind, (set, nowMs) => revoke(set, id, nowMs), audit);
    return (steps.at(-1) as PhaseStep).id;
  }

  /** Removes authorities that are no longer needed; resolves to their ids. */
  async prune(kind: AuthorityKind, audit: AuthorityAudit): Promise<readonly string[]> {
    const steps = await this.#change(kind, prune, audit);
    return steps.map(({ id }) => id);
  }

  /**
   * Emergency rotation: activates the next authority and revokes the active one, in one commit, without
   * waiting for peers. It uses the prepared authority if there is one, as peers may already hold it. With
   * `fresh` it discards that one too, because the attacker may have both keys.
   */
  async replaceAtOnce(
    kind: AuthorityKind,
    { fresh }: { readonly fresh: boolean },
    audit: AuthorityAudit,
  ): Promise<AuthorityView> {
    const make = once(() => this.#make(kind));
    const steps = await this.#change(
      kind,
      async (set, nowMs) => {
        const usable = set.some((one) => one.state === 'prepared' && isValidAt(one, nowMs));
        return replaceAtOnce(set, usable && !fresh ? undefined : await make(), nowMs);
      },
      audit,
    );
    return this.#view(steps);
  }

  /** Loads the record that another replica wrote, if it changed. */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#adoptStored());
  }

  /** Why the record of another replica could not be loaded. This replica keeps its previous state. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Issues an SVID to a workload of this trust domain. Rejects `/hansa` and paths below it, which have their own issuers. */
  issue(request: WorkloadRequest): Promise<IssuedSvid> {
    const { spiffeId } = request;
    if (!spiffeId.memberOf(this.trustDomain) || spiffeId.path === '') {
      return Promise.reject(
        new HansaError(
          'HANSA_BAD_REQUEST',
          `Cannot issue ${spiffeId.toString()}: this site only issues identities of the form ${this.trustDomain.id}/PATH.`,
        ),
      );
    }
    if (spiffeId.isReserved) {
      return Promise.reject(
        new HansaError(
          'HANSA_FORBIDDEN',
          `Cannot issue ${spiffeId.toString()}: /hansa and everything below it is reserved. Choose another path.`,
        ),
      );
    }
    return this.#issue(spiffeId, request);
  }

  /** Issues the SVID of the site. Its DNS names and addresses are for clients that do not speak SPIFFE. */
  issueSite(request: NamedLeafRequest): Promise<IssuedSvid> {
    return this.#issue(SpiffeId.of(this.trustDomain, 'hansa', 'site'), request);
  }

  reservedIssuer(role: ReservedRole): ReservedIssuer {
    return {
      issue: async (segment, request) => {
        // A slash would name an identity below another name.
        if (segment === '' || segment.includes('/')) {
          throw new HansaError(
            'HANSA_BAD_REQUEST',
            `Cannot issue an SVID for ${role} ${JSON.stringify(segment.slice(0, 80))}: a name is one path segment of letters, digits, dots, dashes and underscores.`,
          );
        }
        const { publicKey, ttlSeconds = maxTtlSeconds } = request;
        const id = SpiffeId.of(this.trustDomain, 'hansa', role, segment);
        return this.#issue(id, { publicKey, ttlSeconds });
      },
    };
  }

  async #issue(id: SpiffeId, request: NamedLeafRequest): Promise<IssuedSvid> {
    const { id: authorityId, certificate: issuer, signer, leaves, chain } = this.#signing.x509;
    const { ttlSeconds = maxTtlSeconds } = request;
    if (!(ttlSeconds >= 1 && ttlSeconds <= maxTtlSeconds)) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot issue ${id.toString()} for ${ttlSeconds} seconds: the lifetime must be 1 to ${maxTtlSeconds} seconds.`,
      );
    }
    const nowMs = Math.floor(this.#clock.now() / 1000) * 1000;
    if (!isValidAt(issuer, nowMs)) {
      const [from, until, now] = [issuer.notBeforeMs, issuer.notAfterMs, nowMs].map(timestamp);
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot issue ${id.toString()}: the authority of ${this.trustDomain.name} is valid from ${from} to ${until}, but the clock says ${now}. Check the clock, or rotate the authority.`,
      );
    }
    const serial = this.#serials.take() ?? (await this.#serials.draw());
    const notBeforeMs = Math.max(nowMs - clockSkewMs, issuer.notBeforeMs);
    const notAfterMs = Math.min(nowMs + Math.floor(ttlSeconds) * 1000, issuer.notAfterMs);
    const tbs = leaves.encode({
      id,
      serial,
      notBeforeMs,
      notAfterMs,
      publicKey: request.publicKey,
      dnsNames: request.dnsNames ?? noNames,
      ipAddresses: request.ipAddresses ?? noNames,
    });
    const der = assemble(tbs, signer.algorithm, await signer.sign(tbs));
    return {
      id,
      chain: [der, ...chain],
      notBeforeMs,
      notAfterMs,
      serialHex: serial.toString('hex'),
      authorityId,
    };
  }

  #make(kind: AuthorityKind): Promise<AnyEntry> {
    return kind === 'x509' ? makeX509(this.#options) : makeJwt(this.#options);
  }

  #view(steps: readonly PhaseStep[]): AuthorityView {
    for (const { verb, id } of steps.toReversed()) {
      if (verb === 'revoke') continue;
      const view = this.#authorities.find((authority) => authority.id === id);
      if (view !== undefined) return view;
    }
    throw new TypeError('The change left no authority.');
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change);
    this.#changing = done.catch(() => undefined);
    return done;
  }

  /** Replaces the set of one kind, so that X.509 and JWT authorities never mix. */
  #change(
    kind: AuthorityKind,
    step: (set: readonly AnyEntry[], nowMs: number) => Phased<AnyEntry> | Promise<Phased<AnyEntry>>,
    audit: AuthorityAudit,
  ): Promise<readonly PhaseStep[]> {
    return this.#inTurn(async () => {
      for (let attempt = 1; ; attempt++) {
        // Starts from the current record, and fails if it cannot be read: a newer version may have written it.
        await this.#adoptStored();
        const { set, steps } = await step(this.#record[kind], this.#clock.now());
        if (steps.length === 0) return steps;
        const kept = set.map(withoutSpentKey);
        const next: AuthorityRecord =
          kind === 'x509'
            ? { ...this.#record, x509: kept as readonly X509Entry[] }
            : { ...this.#record, jwt: kept as readonly JwtEntry[] };
        try {
          await this.#write(next, audit(steps.map((taken) => ({ ...taken, kind }))));
          return steps;
        } catch (error) {
          // If another replica was first, repeats the step on its record.
          if (!hasCode(error, 'HANSA_CONFLICT') || attempt === maxAttempts) throw error;
        }
      }
    });
  }

  /** A record of version 1 has no JWT key. If several replicas load it at once, one adds the key. */
  #keepFirstJwt(audit: AuthorityAudit): Promise<void> {
    return this.#inTurn(async () => {
      const [first] = this.#record.jwt;
      if (first === undefined) return;
      const steps: AuthorityStep[] = [
        { kind: 'jwt', verb: 'prepare', id: first.id, notAfterMs: first.notAfterMs },
        { kind: 'jwt', verb: 'activate', id: first.id, notAfterMs: first.notAfterMs },
      ];
      try {
        await this.#write(this.#record, audit(steps));
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
        await this.#adoptStored();
      }
    });
  }

  async #write(next: AuthorityRecord, rows: ReturnType<AuthorityAudit>): Promise<void> {
    const adopt = this.#adoption(next);
    const record = encodeAuthorities(this.trustDomain.name, next);
    try {
      await this.#options.vault.replace(record, rows);
    } finally {
      record.fill(0);
    }
    adopt();
  }

  async #adoptStored(): Promise<void> {
    try {
      const stored = await loaded(this.#options);
      this.#problem = undefined;
      if (stored === undefined || stored.jwt.length === 0) return;
      if (!isDeepStrictEqual(viewsOf(stored), this.#authorities)) this.#adoption(stored)();
    } catch (error) {
      this.#problem = toHansaError(error).message;
      throw error;
    }
  }

  /** Does everything that can fail before the write. The returned function cannot fail. */
  #adoption(record: AuthorityRecord): () => void {
    const signing = signingOf(this.trustDomain, record);
    const bundle = bundleOf(this.trustDomain, record);
    return () => {
      this.#record = record;
      this.#signing = signing;
      // Readers detect a change by object identity: the same authorities keep the same bundle.
      const { hash, issuers } = this.#bundle;
      if (bundle.hash !== hash || !isDeepStrictEqual(bundle.issuers, issuers)) {
        this.#bundle = bundle;
      }
      this.#authorities = viewsOf(record);
      for (const listener of this.#listeners) listener();
    };
  }
}

/** Undefined where there is no record. Throws where it belongs to another trust domain or is not readable. */
async function loaded(options: AuthorityOptions): Promise<AuthorityRecord | undefined> {
  const record = await options.vault.load();
  if (record === undefined) return undefined;
  try {
    const { trustDomain, x509, jwt } = decodeAuthorities(record);
    if (trustDomain !== options.trustDomain.name) {
      throw new HansaError(
        'HANSA_CONFIG_INVALID',
        `Cannot start as trust domain ${options.trustDomain.name}: this data folder belongs to ${trustDomain}. Start it with that trust domain, or with another --data-dir.`,
      );
    }
    return { x509, jwt };
  } finally {
    record.fill(0);
  }
}

/** Creates the key once and reuses it in retries. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
