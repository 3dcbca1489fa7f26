// core/identity holds what every plane needs of PKI: reading and writing certificates, keys and
// signers, the site's authorities, the SVID path validator, and TLS servers and clients that choose
// trust by trust domain. No plane's policy lives here: who may have which identity is decided
// above; when authorities rotate, bundles on the wire and the Workload API belong to the trust plane.
//
// This file is the site's authorities: those of its trust domain, made at first start, what becomes
// of them, and the SVIDs that the active one issues. It issues leaves only, never an intermediate
// CA: whoever held one could sign this trust domain's own identities.

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
  /** DER, the leaf first, then what is between it and a root; never the root, which peers have from the bundle. */
  readonly chain: readonly Buffer[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly serialHex: string;
  /** The id of the authority that signed it. */
  readonly authorityId: string;
}

/** The right to issue below one reserved prefix, to be handed to the one part that may. */
export interface ReservedIssuer {
  /** `name` is one segment of a path. Throws HANSA_BAD_REQUEST where it is not. */
  issue(name: string, request: LeafRequest): Promise<IssuedSvid>;
}

export interface AuthorityOptions extends MakeOptions {
  readonly vault: AuthorityVault;
  /** Up to when an operator said that the clock is right: see `clockDoubt`. */
  readonly clockTrustedUntilMs?: number | undefined;
  /** For what `open` itself must do: to replace what expired while the site was down, or add what an older version had not. */
  readonly audit?: AuthorityAudit;
}

/** A change that was overtaken is tried again on what is there; more often than this something is ill. */
const maxAttempts = 8;

const noNames: readonly string[] = [];

/**
 * Issuing is safe to call in any number at once, and fails where the authority itself has expired.
 * Changes are compare-and-set on the record: each is made on what any replica wrote last, takes effect
 * here when it is durable, and is told to the audit log in the same commit. They come one after another.
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
    // What failed is in `problem`.
    options.vault.watch?.(() => void this.reload().catch(() => undefined));
  }

  /**
   * Loads the authorities, or makes them where there are none. Rejects with HANSA_CLOCK_DOUBTFUL where
   * all have expired by a clock that may be wrong. Of several that start at once, one makes them.
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
    // A site that was down for long must be able to start; where one was prepared, others hold it already.
    for (const kind of ['x509', 'jwt'] as const) {
      const active = authority.#record[kind].find(({ state }) => state === 'active');
      if (active !== undefined && options.clock.now() >= active.notAfterMs) {
        await authority.replaceAtOnce(kind, { fresh: false }, audit);
      }
    }
    return authority;
  }

  /** What this site's SVIDs are verified against. Another one as soon as the authorities change. */
  get bundle(): Bundle {
    return this.#bundle;
  }

  /** The certificate that signs now. Where there is an upstream authority, it is not in the bundle itself. */
  get certificate(): Certificate {
    return this.#signing.x509.certificate;
  }

  /** What a new authority would be verified by; none where that is only known once it is made. */
  upstreamRootIds(): Promise<readonly string[]> {
    return upstreamRootIds(this.#options.upstream);
  }

  /** The key that signs JWT-SVIDs now: to be asked for each token. */
  get jwtSigner(): JwtSigner {
    return this.#signing.jwt;
  }

  /** All of both kinds. The same list until something changes. */
  get authorities(): readonly AuthorityView[] {
    return this.#authorities;
  }

  /** Whether what this authority signed is to be replaced: it is tainted, or not there any more. */
  isTainted(id: string): boolean {
    const known = this.#authorities.find((authority) => authority.id === id);
    return known === undefined || known.state === 'tainted';
  }

  /** Calls after every durable change, also one of another replica; returns how to stop that. Must not throw. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Makes a new one, published from now on. One of a kind at a time: HANSA_ALREADY_EXISTS. */
  async prepare(kind: AuthorityKind, audit: AuthorityAudit): Promise<AuthorityView> {
    const make = once(() => this.#make(kind));
    const steps = await this.#change(
      kind,
      async (set, nowMs) => {
        // Before a key is made for nothing.
        assertRoom(set, nowMs);
        return prepare(set, await make(), nowMs);
      },
      audit,
    );
    return this.#view(steps);
  }

  /** The prepared one signs from now on. Nothing that was issued before is touched. HANSA_AUTHORITY_STATE. */
  async activate(
    kind: AuthorityKind,
    id: string | undefined,
    audit: AuthorityAudit,
  ): Promise<AuthorityView> {
    return this.#view(await this.#change(kind, (set, nowMs) => activate(set, id, nowMs), audit));
  }

  /** What an old one signed is to be replaced at once: listeners of `onChange` do. HANSA_AUTHORITY_STATE. */
  async taint(
    kind: AuthorityKind,
    id: string | undefined,
    audit: AuthorityAudit,
  ): Promise<AuthorityView> {
    return this.#view(await this.#change(kind, (set, nowMs) => taint(set, id, nowMs), audit));
  }

  /** Takes one out of the bundle; resolves to its id. HANSA_AUTHORITY_STATE. */
  async revoke(
    kind: AuthorityKind,
    id: string | undefined,
    audit: AuthorityAudit,
  ): Promise<string> {
    const steps = await this.#change(kind, (set, nowMs) => revoke(set, id, nowMs), audit);
    return (steps.at(-1) as PhaseStep).id;
  }

  /** Takes out what has lapsed; resolves to the ids. Nothing is written where nothing has. */
  async prune(kind: AuthorityKind, audit: AuthorityAudit): Promise<readonly string[]> {
    const steps = await this.#change(kind, prune, audit);
    return steps.map(({ id }) => id);
  }

  /**
   * The next one signs, and the active one is out of the bundle, in one commit that waits for nobody.
   * The prepared one is taken where there is one, as others may hold it already; with `fresh` it is
   * given up too, where whoever has the active key may have that as well.
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

  /** Adopts what another replica wrote. Nothing happens where that is what is known already. */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#adoptStored());
  }

  /** Why what another replica wrote could not be adopted: this one goes on with what it knew before. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** An SVID of a workload of this trust domain; `/hansa` and what is below has issuers of its own and is refused. */
  issue(request: WorkloadRequest): Promise<IssuedSvid> {
    const { spiffeId } = request;
    if (!spiffeId.memberOf(this.trustDomain) || spiffeId.path === '') {
      return Promise.reject(
        new HansaError(
          'HANSA_BAD_REQUEST',
          `Cannot issue ${spiffeId.toString()}: this site issues identities of ${this.trustDomain.id}/PATH only.`,
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

  /** The site itself; DNS names and addresses let clients that know no SPIFFE verify its listeners. */
  issueSite(request: NamedLeafRequest): Promise<IssuedSvid> {
    return this.#issue(SpiffeId.of(this.trustDomain, 'hansa', 'site'), request);
  }

  reservedIssuer(role: ReservedRole): ReservedIssuer {
    return {
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
    const { id: authorityId, certificate: issuer, signer, leaves, chain } = this.#signing.x509;
    const { ttlSeconds = maxTtlSeconds } = request;
    if (!(ttlSeconds >= 1 && ttlSeconds <= maxTtlSeconds)) {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `Cannot issue ${id.toString()} for ${ttlSeconds} seconds: 1 to ${maxTtlSeconds} are accepted.`,
      );
    }
    const nowMs = Math.floor(this.#clock.now() / 1000) * 1000;
    if (!isValidAt(issuer, nowMs)) {
      const [from, until, now] = [issuer.notBeforeMs, issuer.notAfterMs, nowMs].map(timestamp);
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot issue ${id.toString()}: the authority of ${this.trustDomain.name} is valid from ${from} to ${until}, and it is ${now}. Check the clock, or rotate the authority.`,
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
    throw new TypeError('A change of an authority left none.');
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change);
    this.#changing = done.catch(() => undefined);
    return done;
  }

  /** The set of a kind is written back as the same kind: nothing mixes the two. */
  #change(
    kind: AuthorityKind,
    step: (set: readonly AnyEntry[], nowMs: number) => Phased<AnyEntry> | Promise<Phased<AnyEntry>>,
    audit: AuthorityAudit,
  ): Promise<readonly PhaseStep[]> {
    return this.#inTurn(async () => {
      for (let attempt = 1; ; attempt++) {
        // On what is there now, and on nothing where that cannot be read: a newer version may have written it.
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
          // Where another replica was first, the step is taken from what it wrote.
          if (!hasCode(error, 'HANSA_CONFLICT') || attempt === maxAttempts) throw error;
        }
      }
    });
  }

  /** A record of version 1 has no JWT key. Of several that load it at once, one adds it. */
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

  /** First what can fail, before anything is written: what is returned cannot. */
  #adoption(record: AuthorityRecord): () => void {
    const signing = signingOf(this.trustDomain, record);
    const bundle = bundleOf(this.trustDomain, record);
    return () => {
      this.#record = record;
      this.#signing = signing;
      // Readers tell a change by identity: the same authorities are the same bundle.
      const { hash, issuers } = this.#bundle;
      if (bundle.hash !== hash || !isDeepStrictEqual(bundle.issuers, issuers)) {
        this.#bundle = bundle;
      }
      this.#authorities = viewsOf(record);
      for (const listener of this.#listeners) listener();
    };
  }
}

/** Undefined where there is none. Throws where it is of another trust domain, or not readable. */
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

/** A key that was made is used, also where the change is tried again. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
