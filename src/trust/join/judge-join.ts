// May this one join? Every question is asked, whatever the answer to another, and all of them take
// the same work: whoever is refused learns that, and nothing more. Why is for the operator. No I/O.

import { type KeyObject, timingSafeEqual } from 'node:crypto';
import { maxAllowRules } from '../../api/kinds/join-token.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KeyAlgorithm } from '../../core/identity/x509/algorithms.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { brokenRule, refuse } from '../../core/identity/x509/rules.ts';
import { parseChain, validateChainWith } from '../../core/identity/x509/svid-validator.ts';
import { allows, parseAllowRule } from './allow-rules.ts';
import {
  checkTranscript,
  EvenChecks,
  secretDigest,
  secretKeyObject,
  type Verify,
} from './proof.ts';
import type { JoinWish } from './transcript.ts';
import type { SecretRecord, UsableToken } from './token-book.ts';

/** For metrics: of a bounded set. In the order in which they are told. */
export type RefusalReason =
  | 'unknown-token'
  | 'expired-token'
  | 'wrong-method'
  | 'wrong-role'
  | 'bad-name'
  | 'bad-key'
  | 'bad-certificate'
  | 'bad-signature'
  | 'denied-identity'
  | 'wrong-secret'
  | 'unknown-member'
  | 'untrusted-peer'
  | 'old-generation';

export interface Refusal {
  readonly reason: RefusalReason;
  readonly message: string;
}

export interface ProvenSvid {
  readonly id: SpiffeId;
  readonly leaf: Certificate;
}

export interface SvidProof {
  /** The leaf first, DER. */
  readonly chain: readonly Uint8Array[];
  readonly transcript: Uint8Array;
  readonly signature: Uint8Array;
}

export interface SvidJudgement {
  /** What was brought, believed or not; undefined where it cannot even be read. */
  readonly presented: Certificate | undefined;
  /** Set where chain and signature are good, whatever the token says. */
  readonly proven: ProvenSvid | undefined;
  readonly refusals: readonly Refusal[];
}

/** Is the chain good, and does whoever brought it hold its key? Always five signatures or more. */
export async function judgeSvid(
  proof: SvidProof,
  bundles: BundleSource,
  nowMs: number,
  verifies: Verify,
): Promise<SvidJudgement> {
  const refusals: Refusal[] = [];
  const refused = (reason: RefusalReason, caught: unknown): undefined => {
    if (brokenRule(caught) === undefined) throw caught;
    refusals.push({ reason, message: (caught as HansaError).message });
    return undefined;
  };
  let chain: readonly Certificate[] = [];
  try {
    chain = parseChain(proof.chain);
  } catch (caught) {
    refused('bad-certificate', caught);
  }
  const leaf = chain[0];
  const even = new EvenChecks(verifies);
  let id: SpiffeId | undefined;
  if (leaf !== undefined) {
    try {
      ({ id } = await validateChainWith(chain, bundles, nowMs, even.verify));
    } catch (caught) {
      refused('bad-certificate', caught);
    }
  }
  await even.fillUp(leaf);
  // To refuse writes down a stack, twenty microseconds long: who is not refused here pays them too.
  if (id !== undefined) brokenRule(refuse('no-bundle', 'it is a decoy'));
  const signed = await checkTranscript(verifies, proof.transcript, holderOf(leaf), proof.signature);
  if (!signed) {
    refusals.push({
      reason: 'bad-signature',
      message:
        'The signature of the transcript is not by the key of the SVID, or of another connection.',
    });
  }
  const proven = id !== undefined && signed && leaf !== undefined ? { id, leaf } : undefined;
  return { presented: leaf, proven, refusals };
}

function holderOf(
  leaf: Certificate | undefined,
): { readonly key: KeyObject; readonly algorithm: KeyAlgorithm } | undefined {
  if (leaf === undefined) return undefined;
  try {
    return { key: leaf.publicKey, algorithm: leaf.subjectPublicKey.algorithm };
  } catch (caught) {
    // A key that is not allowed: told of by the judgement of the chain.
    if (brokenRule(caught) === undefined) throw caught;
    return undefined;
  }
}

const decoyRule = parseAllowRule('spiffe://decoy.invalid/decoy/*');
/** Matches no rule that anybody would write, and certainly not what was proven. */
const decoyId = SpiffeId.parse('spiffe://decoy.invalid/decoy');

/** Do the rules of the token allow it? Always as many rules as a token may have. */
export function judgeRules(
  token: UsableToken | undefined,
  id: SpiffeId | undefined,
): readonly Refusal[] {
  let allowed = false;
  for (let index = 0; index < maxAllowRules; index++) {
    if (allows(token?.rules[index] ?? decoyRule, id ?? decoyId)) allowed = true;
  }
  if (allowed && id !== undefined) return [];
  return [
    {
      reason: 'denied-identity',
      message: `No rule of the token allows ${id?.toString() ?? 'an identity that is not proven'}.`,
    },
  ];
}

/** Does whoever asks hold the secret of the token? Always one comparison and one signature. */
export async function judgeSecret(
  proof: {
    readonly publicKey: Uint8Array;
    readonly transcript: Uint8Array;
    readonly signature: Uint8Array;
  },
  kept: SecretRecord | undefined,
  verifies: Verify,
): Promise<readonly Refusal[]> {
  const known = timingSafeEqual(
    secretDigest(proof.publicKey),
    Buffer.from(kept?.digest ?? noDigest, 'hex'),
  );
  const key = secretKeyObject(proof.publicKey);
  const holder = key && { key, algorithm: 'ed25519' as const };
  const signed = await checkTranscript(verifies, proof.transcript, holder, proof.signature);
  return [
    ...(known && kept !== undefined
      ? []
      : [{ reason: 'wrong-secret', message: 'The secret is not that of the token.' } as const]),
    ...(signed
      ? []
      : [
          {
            reason: 'bad-signature',
            message:
              'The signature of the transcript is not by the secret, or of another connection.',
          } as const,
        ]),
  ];
}

/** The digest of nothing that is known. */
const noDigest = '00'.repeat(32);

/** One segment of a SPIFFE ID's path, in lower case, as names of bots and users are. */
const namePattern = /^[a-z0-9](?:[-._a-z0-9]{0,61}[a-z0-9])?$/;

/** Does the token let anybody become this? */
export function judgeToken(
  token: UsableToken | undefined,
  method: UsableToken['method'],
  { token: name, role, name: agentName }: JoinWish,
  nowMs: number,
): readonly Refusal[] {
  if (token === undefined) {
    return [
      {
        reason: 'unknown-token',
        message: `There is no token ${JSON.stringify(name.slice(0, 80))}.`,
      },
    ];
  }
  const refusals: Refusal[] = [];
  if (nowMs >= token.expiresAtMs) {
    const ago = Math.round((nowMs - token.expiresAtMs) / 1000);
    refusals.push({ reason: 'expired-token', message: `The token expired ${ago} s ago.` });
  }
  if (token.method !== method) {
    refusals.push({
      reason: 'wrong-method',
      message: `The token has the method ${token.method}, and ${method} was used.`,
    });
  }
  if (!token.roles.includes(role)) {
    refusals.push({
      reason: 'wrong-role',
      message: `The token is not for the role ${JSON.stringify(role.slice(0, 40))}.`,
    });
  }
  const named = role === 'agent' ? namePattern.test(agentName) : agentName === '';
  if (!named) {
    refusals.push({
      reason: 'bad-name',
      message:
        role === 'agent'
          ? `${JSON.stringify(agentName.slice(0, 80))} is no name of an agent: at most 63 lower case letters, digits, ".", "-" and "_".`
          : 'A bot has the name that the token gives, and asks for none.',
    });
  }
  return refusals;
}

/** What everybody who is refused is told, whatever the reason. */
export function uniformRefusal(): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    'The join was refused. The operator of the site finds the reason in its audit log, a minute later at most (hansa audit list --outcome deny -o wide).',
  );
}
