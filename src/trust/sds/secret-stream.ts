// The state of one stream of the secret discovery service (xDS transport protocol), without I/O: requested,
// sent and pending secrets. It supports state of the world, where each message is complete, and delta,
// where each message has the changes. It builds a message only when it can be sent, so that a slow reader
// takes no memory. Pure.

import { createHash } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryResponseSchema,
  type DiscoveryRequest,
  DiscoveryResponseSchema,
} from '../../../proto/gen/sds_pb.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type NamedSecret, secretType, type WorkloadSecrets } from './workload-secrets.ts';

/** Names that one stream may ask for: far above what an Envoy with all peers of a site needs. */
export const maxNames = 1024;

/** Characters of all of them together: a stream keeps them for as long as it lives, and a user may have thousands. */
export const maxNameCharacters = 32 * 1024;

/** Ours have sixteen characters; what is longer is no version that was ever given. */
const maxVersionCharacters = 64;

/** Of an Envoy's reason: it names the secret and what is wrong, and is written by a stranger. */
const maxReasonCharacters = 500;

/** A dialect: both are asked by the same service. Throws HANSA_BAD_REQUEST where a request makes no sense. */
export interface SecretStream<Request> {
  /** Returns why the last message was not taken, where it was not: for the operator's log. */
  request(request: Request): string | undefined;
  /** What the workload has now. */
  update(secrets: WorkloadSecrets): void;
  /** What is to be sent now; undefined where everything was told. Asking is sending. */
  next(): Uint8Array | undefined;
  /** What is asked for and not there. */
  readonly missing: readonly string[];
}

export class StateOfTheWorld implements SecretStream<DiscoveryRequest> {
  #wanted: ReadonlySet<string> | undefined;
  #secrets: WorkloadSecrets | undefined;
  #sentVersion: string | undefined;
  #nonce = 0;
  /** What the Envoy holds, from this stream or, as its version tells, from one before. */
  readonly #given = new Set<string>();
  #cameBack = false;

  request(request: DiscoveryRequest): string | undefined {
    checkType(request.typeUrl);
    const names = checkNames(request.resourceNames);
    // Every later request answers a response; one that crossed a newer response on its way is
    // followed by the answer to that, and nothing of it counts.
    if (this.#nonce > 0 && request.responseNonce !== String(this.#nonce)) return undefined;
    if (this.#wanted === undefined) this.#cameBack = request.versionInfo !== '';
    this.#wanted = names;
    // It keeps nothing of what it no longer asks for, so nor do we.
    for (const name of this.#given) if (!names.has(name)) this.#given.delete(name);
    return request.errorDetail?.message.slice(0, maxReasonCharacters);
  }

  update(secrets: WorkloadSecrets): void {
    this.#secrets = secrets;
  }

  get missing(): readonly string[] {
    return [...(this.#wanted ?? [])].filter((name) => this.#secrets?.get(name) === undefined);
  }

  next(): Uint8Array | undefined {
    const secrets = this.#secrets;
    const wanted = this.#wanted;
    if (secrets === undefined || wanted === undefined) return undefined;
    const found = wanted.size === 0 ? secrets.all() : this.#find(wanted, secrets);
    // An Envoy takes a response without any resource for a fault.
    if (found.length === 0) return undefined;
    const version = versionOf(found);
    if (version === this.#sentVersion) return undefined;
    this.#sentVersion = version;
    this.#nonce++;
    for (const { name } of found) this.#given.add(name);
    return encodeState(found, version, String(this.#nonce));
  }

  #find(wanted: ReadonlySet<string>, secrets: WorkloadSecrets): readonly NamedSecret[] {
    return [...wanted].flatMap((name) => {
      const isHeld = this.#cameBack || this.#given.has(name);
      return secrets.get(name) ?? (isHeld ? secrets.nobody(name) : undefined) ?? [];
    });
  }
}

/** The answer to a single question, without anything that follows. */
export function fetched(request: DiscoveryRequest, secrets: WorkloadSecrets): Uint8Array {
  checkType(request.typeUrl);
  const names = checkNames(request.resourceNames);
  const found =
    names.size === 0 ? secrets.all() : [...names].flatMap((name) => secrets.get(name) ?? []);
  return encodeState(found, versionOf(found), '');
}

const wildcard = '*';

export class Delta implements SecretStream<DeltaDiscoveryRequest> {
  readonly #wanted = new Set<string>();
  #wantsAll = false;
  #isFirst = true;
  #secrets: WorkloadSecrets | undefined;
  /** The version that the Envoy holds, by name. */
  readonly #held = new Map<string, string>();
  #nonce = 0;

  request(request: DeltaDiscoveryRequest): string | undefined {
    checkType(request.typeUrl);
    const subscribed = checkNames(request.resourceNamesSubscribe);
    const isFirst = this.#isFirst;
    if (isFirst) {
      this.#isFirst = false;
      const held = Object.entries(request.initialResourceVersions);
      checkNames(held.map(([name]) => name));
      for (const [name, version] of held) {
        this.#held.set(name, version.slice(0, maxVersionCharacters));
      }
      this.#wantsAll = subscribed.size === 0;
    }
    for (const name of subscribed) {
      if (name === wildcard) this.#wantsAll = true;
      else this.#wanted.add(name);
      // A repeated subscription gets the secret again.
      if (!isFirst) this.#held.delete(name);
    }
    for (const name of checkNames(request.resourceNamesUnsubscribe)) {
      if (name === wildcard) this.#wantsAll = false;
      this.#wanted.delete(name);
      this.#held.delete(name);
    }
    checkNames([...this.#wanted]);
    // Changes of a subscription count whatever they answer.
    return request.errorDetail?.message.slice(0, maxReasonCharacters);
  }

  update(secrets: WorkloadSecrets): void {
    this.#secrets = secrets;
  }

  get missing(): readonly string[] {
    return [...this.#wanted].filter((name) => this.#secrets?.get(name) === undefined);
  }

  next(): Uint8Array | undefined {
    const secrets = this.#secrets;
    if (secrets === undefined || this.#isFirst) return undefined;
    const wanted = new Map<string, NamedSecret>();
    if (this.#wantsAll) for (const secret of secrets.all()) wanted.set(secret.name, secret);
    for (const name of this.#wanted) {
      const secret = secrets.get(name) ?? (this.#held.has(name) ? secrets.nobody(name) : undefined);
      if (secret !== undefined) wanted.set(name, secret);
    }
    const changed = [...wanted.values()].filter(
      ({ name, version }) => this.#held.get(name) !== version,
    );
    const removed = [...this.#held.keys()].filter((name) => !wanted.has(name));
    if (changed.length === 0 && removed.length === 0) return undefined;
    for (const name of removed) this.#held.delete(name);
    for (const { name, version } of changed) this.#held.set(name, version);
    this.#nonce++;
    return toBinary(
      DeltaDiscoveryResponseSchema,
      create(DeltaDiscoveryResponseSchema, {
        systemVersionInfo: secrets.version,
        resources: changed.map((secret) => ({
          name: secret.name,
          version: secret.version,
          resource: packed(secret),
        })),
        typeUrl: secretType,
        nonce: String(this.#nonce),
        removedResources: removed,
      }),
    );
  }
}

function encodeState(found: readonly NamedSecret[], version: string, nonce: string): Uint8Array {
  return toBinary(
    DiscoveryResponseSchema,
    create(DiscoveryResponseSchema, {
      versionInfo: version,
      resources: found.map((secret) => packed(secret)),
      typeUrl: secretType,
      nonce,
    }),
  );
}

function packed({ bytes }: NamedSecret): { typeUrl: string; value: Uint8Array<ArrayBuffer> } {
  return { typeUrl: secretType, value: bytes };
}

function versionOf(found: readonly NamedSecret[]): string {
  const digest = createHash('sha256');
  for (const { name, version } of found) digest.update(`${name} ${version}\n`);
  return digest.digest('hex').slice(0, 16);
}

function checkType(typeUrl: string): void {
  if (typeUrl === '' || typeUrl === secretType) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot discover ${excerpt(typeUrl)}: this service supports only ${secretType}.`,
  );
}

function checkNames(names: readonly string[]): ReadonlySet<string> {
  if (names.length > maxNames) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot discover ${names.length} secrets on one stream: the limit is ${maxNames}.`,
    );
  }
  const characters = names.reduce((sum, name) => sum + name.length, 0);
  if (characters > maxNameCharacters) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot discover secrets with names of ${characters} characters on one stream: the limit is ${maxNameCharacters}.`,
    );
  }
  return new Set(names.filter((name) => name !== ''));
}
