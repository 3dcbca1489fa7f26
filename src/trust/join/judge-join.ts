// Decides whether a caller may join. It always runs all checks, and they take the same time, so a
// rejected caller cannot learn the reason. The operator gets the reasons. No I/O.

import { type KeyObject, timingSafeEqual } from 'node:crypto';
import { maxAllowRules } from '../../api/kinds/join-token.ts';
import { agentNameRule, isAgentName, siteAgentName } from '../../api/values/agent-name.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KeyAlgorithm } from '../../core/identity/x509/algorithms.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { brokenRule, refuse } from '../../core/identity/x509/rules.ts';
import { checkLeaf } from '../../core/identity/x509/svid-rules.ts';
import { parseChain, validateChainWith } from '../../core/identity/x509/svid-validator.ts';
import type { Verify } from '../../core/identity/x509/verify-queue.ts';
import { allows, parseAllowRule } from './allow-rules.ts';
import { checkTranscript, EvenChecks, secretDigest, secretKeyObject } from './proof.ts';
import type { JoinWish } from './transcript.ts';
import type { SecretRecord, UsableToken } from './token-book.ts';

/** A bounded set, for metrics, in the order in which they are reported. */
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
  /** The presented leaf, valid or not; undefined if it cannot be parsed. */
  readonly presented: Certificate | undefined;
  /** Set if chain and signature are valid, whatever the token allows. */
  readonly proven: ProvenSvid | undefined;
  /** Set if the key of the presented SVID signed, even if another authority issued the SVID. */
  readonly held: ProvenSvid | undefined;
  readonly refusals: readonly Refusal[];
}

/**
 * Checks the chain, and that the caller holds its key. Always verifies at least five signatures. With
 * `expired: 'accepted'`, it validates an expired chain as of the last second of the leaf.
 */
export async function judgeSvid(
  proof: SvidProof,
  bundles: BundleSource,
  nowMs: number,
  verifies: Verify,
  { expired = 'refused' }: { readonly expired?: 'accepted' | 'refused' } = {},
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
    const atMs = expired === 'accepted' ? Math.min(nowMs, leaf.notAfterMs) : nowMs;
    try {
      ({ id } = await validateChainWith(chain, bundles, atMs, even.verify));
    } catch (caught) {
      refused('bad-certificate', caught);
    }
  }
  await even.fillUp(leaf);
  // A rejection records a stack trace, which takes 20 µs. The accepted path creates one too.
  if (id !== undefined) brokenRule(refuse('no-bundle', 'it is a decoy'));
  const signed = await checkTranscript(verifies, proof.transcript, holderOf(leaf), proof.signature);
  if (!signed) {
    refusals.push({
      reason: 'bad-signature',
      message:
        'The key of the SVID did not sign this transcript, or the signature is from another connection.',
    });
  }
  const proven = id !== undefined && signed && leaf !== undefined ? { id, leaf } : undefined;
  const claimed = claimedId(leaf);
  const held =
    claimed !== undefined && signed && leaf !== undefined ? { id: claimed, leaf } : undefined;
  return { presented: leaf, proven, held, refusals };
}

/** Undefined if the certificate is not an SVID. Costs the same for every issuer. */
function claimedId(leaf: Certificate | undefined): SpiffeId | undefined {
  if (leaf === undefined) return undefined;
  try {
    return checkLeaf(leaf);
  } catch (caught) {
    if (brokenRule(caught) === undefined) throw caught;
    return undefined;
  }
}

function holderOf(
  leaf: Certificate | undefined,
): { readonly key: KeyObject; readonly algorithm: KeyAlgorithm } | undefined {
  if (leaf === undefined) return undefined;
  try {
    return { key: leaf.publicKey, algorithm: leaf.subjectPublicKey.algorithm };
  } catch (caught) {
    // A disallowed key. The check of the chain reports it.
    if (brokenRule(caught) === undefined) throw caught;
    return undefined;
  }
}

const decoyRule = parseAllowRule('spiffe://decoy.invalid/decoy/*');
/** A placeholder rule that matches no real identity. */
const decoyId = SpiffeId.parse('spiffe://decoy.invalid/decoy');

/** Checks the rules of the token. Always evaluates the maximum number of rules. */
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

/** Checks that the caller holds the secret. Always one comparison and one signature. */
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
              'The secret did not sign this transcript, or the signature is from another connection.',
          } as const,
        ]),
  ];
}

/** A placeholder digest that no known key has. */
const noDigest = '00'.repeat(32);

/** Checks whether the token admits the requested role and name. */
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
      message: `The token has the method ${token.method}, but the caller used ${method}.`,
    });
  }
  if (!token.roles.includes(role)) {
    refusals.push({
      reason: 'wrong-role',
      message: `The token is not for the role ${JSON.stringify(role.slice(0, 40))}.`,
    });
  }
  const problem = nameProblem(token, role, agentName);
  if (problem !== undefined) refusals.push({ reason: 'bad-name', message: problem });
  return refusals;
}

function nameProblem(token: UsableToken, role: string, name: string): string | undefined {
  if (role !== 'agent') {
    if (name === '') return undefined;
    return 'The token sets the name of a bot, so the request must not contain one.';
  }
  const shown = JSON.stringify(name.slice(0, 80));
  if (!isAgentName(name)) return `${shown} is not a valid agent name: use ${agentNameRule}.`;
  if (name === siteAgentName) return `${shown} is the name of the machine of the site.`;
  if (token.agentName === undefined || token.agentName === name) return undefined;
  return `The token admits only the agent ${token.agentName}, but the caller asked for ${shown}.`;
}

/** The same response for every rejection. */
export function uniformRefusal(): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    'The join is rejected. The operator of the site finds the reason in the audit log within a minute: hansa audit list --outcome deny -o wide',
  );
}
