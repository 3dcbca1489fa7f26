// The acceptor's calls of the handshake: preview an invitation, and redeem it. The acceptor sends
// neither the secret nor its name before it has verified the connection against a pinned key.

import { createHash } from 'node:crypto';
import { timestamp } from '../../api/object.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Random } from '../../core/clock/clock.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { maxBundleBytes, parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';
import { validateChain } from '../../core/identity/x509/svid-validator.ts';
import type { Connection, Transport } from '../../core/identity/tls/transport.ts';
import { fingerprintOf } from '../../core/identity/bundle/fingerprint.ts';
import { type Invitation, invitationId, previewProof, secretDigest } from './invitation.ts';
import {
  agreeOnVersion,
  contractVersions,
  encodeMessage,
  maxMessageBytes,
  parsePreviewAnswer,
  parseRedeemAnswer,
  paths,
  type PreviewAnswer,
  type RedeemAnswer,
} from '../messages.ts';
import { refusalOf } from '../client/remote-error.ts';
import type { PeeringSettings } from '../settings.ts';
import { peeringError } from '../errors.ts';
import { ownFeatures } from '../features.ts';

export interface AcceptorParts {
  readonly trustDomain: TrustDomain;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: Pick<PeeringSettings, 'handshakeTimeoutMs'>;
  readonly own: { readonly bundle: Bundle };
  /** The published SPIFFE bundle document of this site. */
  readonly document: () => Promise<string>;
  readonly advertiseURL: () => string;
  /** The key of this site's audit log, signed for the site of this name. */
  readonly introduction?: (to: string) => Promise<{ readonly logIntroduction?: string }>;
}

/** The site that made the invitation, as the invitation describes it. */
export interface InvitingSite {
  readonly url: URL;
  readonly trustDomain: TrustDomain;
  readonly keys: readonly Buffer[];
}

/** The inviter's bundle, verified with a key that the invitation pins. */
export interface VerifiedBundle {
  readonly document: string;
}

/** What accepting an invitation does, for the operator who decides about it. */
export interface InvitationPreview extends PreviewAnswer {
  /** The public id of the invitation. */
  readonly invitation: string;
  readonly trustDomain: string;
  readonly url: string;
  /** Of the keys that the invitation pins. */
  readonly fingerprint: string;
  readonly expiresAt: string;
  /** The inviting site knows this site, and lets it start over with its new keys. */
  readonly reenrols?: true;
}

export class Acceptor {
  readonly #parts: AcceptorParts;

  constructor(parts: AcceptorParts) {
    this.#parts = parts;
  }

  /** Asks the inviter what the invitation does and offers, without redeeming it. */
  preview(invitation: Invitation): Promise<InvitationPreview> {
    const { secret, ...inviter } = invitation;
    return this.#verified(inviter, async (connection) => {
      const challenge = Buffer.from(await this.#parts.random.bytes(32));
      const digest = secretDigest(secret);
      const server = (connection.peerChain[0] as Certificate).fingerprint;
      const { trustDomain } = this.#parts;
      const answer = await post(connection, inviter, paths.preview, {
        invitation: invitationId(digest),
        challenge,
        proof: previewProof(digest, challenge, server, trustDomain.name),
        trustDomain,
        contractVersions,
      });
      const told = parsePreviewAnswer(answer);
      agreeOnVersion([told.contractVersion], inviter.trustDomain.name);
      return {
        ...told,
        invitation: invitationId(digest),
        trustDomain: inviter.trustDomain.name,
        url: inviter.url.href,
        fingerprint: fingerprintOf(inviter.keys),
        expiresAt: timestamp(invitation.expiresAtMs),
        ...(invitation.reenrols === undefined ? {} : { reenrols: true as const }),
      };
    });
  }

  /** Idempotent: the same site may redeem the same invitation again and gets the same answer. */
  async redeem(
    inviter: InvitingSite,
    secret: Buffer,
    signal: AbortSignal,
  ): Promise<RedeemAnswer & VerifiedBundle> {
    const { transport, trustDomain, document, advertiseURL } = this.#parts;
    const verified = await this.#verified(inviter, async (_connection, found) => found);
    // A new connection, because this one presents the certificate of this site.
    const connection = await reach(inviter, () =>
      transport.connect({
        url: inviter.url,
        verify: (chain) => this.#verify(inviter, verified.pinned, chain),
        asSite: true,
        timeoutMs: this.#parts.settings.handshakeTimeoutMs,
        signal,
      }),
    );
    try {
      const answer = await post(connection, inviter, paths.redeem, {
        contractVersions,
        secret,
        trustDomain,
        url: new URL(advertiseURL()),
        bundle: await document(),
        ...ownFeatures(advertiseURL()),
        ...(await this.#parts.introduction?.(inviter.trustDomain.name)),
      });
      const told = parseRedeemAnswer(answer);
      agreeOnVersion([told.contractVersion], inviter.trustDomain.name);
      return { ...verified, ...told };
    } finally {
      connection.close();
    }
  }

  async #verified<T>(
    inviter: InvitingSite,
    use: (
      connection: Connection,
      verified: VerifiedBundle & { readonly pinned: Bundle },
    ) => Promise<T>,
  ): Promise<T> {
    const connection = await reach(inviter, () =>
      this.#parts.transport.connect({
        url: inviter.url,
        // Verified below, with keys that come over this connection.
        verify: () => undefined,
        asSite: false,
        timeoutMs: this.#parts.settings.handshakeTimeoutMs,
      }),
    );
    try {
      const path = inviter.url.pathname;
      const response = await reach(inviter, () =>
        connection.request({ method: 'GET', path }, maxBundleBytes),
      );
      const { name } = inviter.trustDomain;
      if (response.status !== 200) {
        throw untrusted(
          inviter,
          `it answered with HTTP status ${response.status} instead of a bundle`,
        );
      }
      const { bundle } = believe(inviter, () =>
        parseSpiffeBundle(response.body, inviter.trustDomain, 'x509'),
      );
      if (sharesAuthority(bundle, this.#parts.own.bundle)) {
        throw untrusted(inviter, `its bundle for ${name} contains an authority of this site`);
      }
      // Only pinned keys verify the connection. An attacker can add a key to a genuine bundle, but
      // that key is not pinned.
      const pinned = bundle.authorities.filter(({ spki }) => {
        const digest = createHash('sha256').update(spki).digest();
        return inviter.keys.some((key) => key.equals(digest));
      });
      if (pinned.length === 0) {
        throw untrusted(inviter, 'none of its keys is in the invitation');
      }
      const trusted = new Bundle(inviter.trustDomain, pinned);
      this.#verify(inviter, trusted, connection.peerChain);
      return await use(connection, {
        document: response.body.toString('utf8'),
        pinned: trusted,
      });
    } finally {
      connection.close();
    }
  }

  #verify(inviter: InvitingSite, bundle: Bundle, chain: readonly Certificate[]): void {
    const expected = SpiffeId.of(inviter.trustDomain, 'hansa', 'site');
    const svid = believe(inviter, () =>
      validateChain(
        chain,
        { bundleFor: (domain) => (domain.equals(bundle.trustDomain) ? bundle : undefined) },
        this.#parts.clock.now(),
      ),
    );
    if (!svid.id.equals(expected)) {
      throw untrusted(
        inviter,
        `it presented ${svid.id.toString()}, expected ${expected.toString()}`,
      );
    }
  }
}

/** The path of the federation API below the URL that a site advertises. */
export function pathBelow(url: URL, path: string): string {
  return `${url.pathname.replace(/\/$/, '')}${path}`;
}

async function post(
  connection: Connection,
  inviter: InvitingSite,
  path: string,
  message: Parameters<typeof encodeMessage>[0],
): Promise<Buffer> {
  const response = await reach(inviter, () =>
    connection.request(
      {
        method: 'POST',
        path: pathBelow(inviter.url, path),
        headers: { 'content-type': 'application/json' },
        body: encodeMessage(message),
      },
      maxMessageBytes,
    ),
  );
  const refusal = refusalOf(inviter.trustDomain.name, response);
  if (refusal !== undefined) throw refusal;
  return response.body;
}

async function reach<T>(inviter: InvitingSite, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!hasCode(error, 'HANSA_UNREACHABLE')) throw error;
    throw peeringError(
      'HANSA_PEER_UNREACHABLE',
      `Cannot reach ${inviter.trustDomain.name} at ${inviter.url.href}: ${error.message}`,
      { cause: error },
    );
  }
}

function believe<T>(inviter: InvitingSite, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw untrusted(inviter, toHansaError(error).message, error);
  }
}

function untrusted(inviter: InvitingSite, why: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_PEER_UNTRUSTED',
    `The site at ${inviter.url.href} is not the ${inviter.trustDomain.name} of the invitation: ${why.replace(/\.$/, '')}. This site sent it no secret.`,
    cause === undefined ? {} : { cause },
  );
}
