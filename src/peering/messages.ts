// The messages between sites, version 1: types, size limits and strict parsers. Parsers ignore unknown
// fields, so that a later version can add some.

import { parseSiteURL } from '../api/values/site-url.ts';
import { SpiffeId } from '../api/values/spiffe-id.ts';
import type { TrustDomain } from '../api/values/trust-domain.ts';
import { longestIntroductionChars } from '../core/audit/introduction.ts';
import { peeringError } from './errors.ts';
import { mostClustersTold } from './grants/granted-clusters.ts';
import { type Features, featuresIn } from './features.ts';
import type { AcceptanceAnswer } from './handshake/acceptance.ts';
import { asText, asVersion, malformed, Message } from './message-reader.ts';
import { type ClockPart, parseClockPart } from './peers/clock-part.ts';
import { type FeaturesPart, parseFeaturesPart } from './peers/features-part.ts';
import { encodeLogPart, type LogPart, parseLogPart } from './witness/log-part.ts';

/** The versions of this API that this site supports. Two sites use the highest that both support. */
export const contractVersions: readonly number[] = [1];

/** For a peer from before versions were stored. */
export const agreedByDefault = 1;

export const maxMessageBytes = 256 * 1024;
/** Room for 256 offers, each to a few identities. `offersFor` leaves out what does not fit. */
export const maxHeartbeatBytes = 64 * 1024;
/** The message has one number. */
export const maxAnnouncementBytes = 1024;

const base = '/hansa/federation/v1';
export const paths = {
  preview: `${base}/invitations/preview`,
  redeem: `${base}/invitations/redeem`,
  heartbeat: `${base}/heartbeat`,
  announce: `${base}/announce`,
  catalog: `${base}/catalog`,
  capabilities: `${base}/capabilities`,
  clusterBundle: `${base}/clusters/{cluster}/bundle`,
} as const;

const limits = {
  versions: 16,
  offers: 256,
  grantedTo: 1024,
  url: 2048,
  name: 253,
  warnings: 32,
  warning: 512,
} as const;

export interface PreviewRequest {
  /** The public id of the invitation. */
  readonly invitation: string;
  readonly challenge: Buffer;
  readonly proof: Buffer;
  readonly trustDomain: TrustDomain;
  /** Absent from sites that support only version 1. */
  readonly contractVersions?: readonly number[];
}

export interface PreviewAnswer {
  readonly contractVersion: number;
  /** Names of the offers that are already granted to the acceptor. */
  readonly offers: readonly string[];
  /** Whether an operator of the inviting site must confirm the acceptor. */
  readonly confirmation: boolean;
}

export interface RedeemRequest extends Features {
  /** The key of the acceptor's audit log, signed for the inviter. */
  readonly logIntroduction?: string;
  readonly contractVersions: readonly number[];
  readonly secret: Buffer;
  readonly trustDomain: TrustDomain;
  readonly url: URL;
  /** The SPIFFE bundle document of the acceptor. A site without it is refused. */
  readonly bundle?: string;
  /** Whether the request has a certificate signing request, which only a child of this site may send. */
  readonly hasCsr?: boolean;
}

export interface RedeemAnswer extends Features, Partial<AcceptanceAnswer> {
  /** The key of the inviter's audit log, signed for the acceptor. */
  readonly logIntroduction?: string;
  /** `pending` until an operator of the inviting site has confirmed. */
  readonly state: 'accepted' | 'pending';
  readonly contractVersion: number;
}

export interface OfferTold {
  readonly name: string;
  readonly spiffeID: string;
  readonly grantedTo: readonly string[];
}

/** Request and response of a heartbeat have the same form. */
export interface Heartbeat {
  readonly contractVersion: number;
  /** The sequence of the sender's bundle. A receiver with an older one fetches it at once. */
  readonly bundleSequence: number;
  readonly offers: readonly OfferTold[];
  /** The clusters of the sender that the site of the receiver may read. Absent: the sender does not say. */
  readonly clusters?: readonly string[];
  /** The receipt: which bundle of the receiver the sender trusts. Absent from sites without receipts. */
  readonly holds?: HeldBundle;
  /** Absent from sites that do not witness logs. */
  readonly log?: LogPart;
  /** Absent from sites that do not compare clocks. */
  readonly clock?: ClockPart;
  /** Absent from sites that report their features only in the handshake. */
  readonly features?: FeaturesPart;
}

export interface HeldBundle {
  readonly sequence: number;
  /** `Bundle.hash` of the bundle. */
  readonly hash: string;
}

export interface Announcement {
  readonly bundleSequence: number;
}

export function encodeMessage(
  message: PreviewRequest | PreviewAnswer | RedeemRequest | RedeemAnswer | Heartbeat | Announcement,
): Buffer {
  return Buffer.from(
    JSON.stringify(plain(message), (_key, value: unknown) => {
      // `Buffer.toJSON` runs before this function.
      const bytes = value as { readonly type?: unknown; readonly data?: unknown } | null;
      return typeof bytes === 'object' && bytes?.type === 'Buffer' && Array.isArray(bytes.data)
        ? Buffer.from(bytes.data as number[]).toString('base64url')
        : value;
    }),
  );
}

/** Checkpoints travel as notes. */
function plain(message: object): object {
  const { log } = message as { readonly log?: LogPart };
  return log === undefined ? message : { ...message, log: encodeLogPart(log) };
}

export function parsePreviewRequest(body: Uint8Array): PreviewRequest {
  const message = new Message(body);
  return {
    invitation: message.text('invitation', /^[0-9a-f]{64}$/),
    challenge: message.bytes('challenge', 32),
    proof: message.bytes('proof', 32),
    trustDomain: message.trustDomain('trustDomain'),
    ...message.optional('contractVersions', asVersions),
  };
}

export function parsePreviewAnswer(body: Uint8Array): PreviewAnswer {
  const message = new Message(body);
  return {
    contractVersion: message.version('contractVersion'),
    offers: message.list('offers', limits.offers, (item) => asText(item, limits.name)),
    confirmation: message.flag('confirmation'),
  };
}

export function parseRedeemRequest(body: Uint8Array): RedeemRequest {
  const message = new Message(body);
  const url = parseSiteURL(message.text('url', /^https:\/\/\S{1,2040}$/));
  if (url === undefined) throw malformed('url is not a valid https URL of a site');
  return {
    contractVersions: message.list('contractVersions', limits.versions, asVersion),
    secret: message.bytes('secret', 32),
    trustDomain: message.trustDomain('trustDomain'),
    url,
    ...message.optional('bundle', (bundle) => new Message({ bundle }).text('bundle', /^\s*\{/)),
    ...(message.optional('csr', () => true).csr && { hasCsr: true }),
    ...introductionIn(message),
    ...featuresIn(message),
  };
}

export function parseRedeemAnswer(body: Uint8Array): RedeemAnswer {
  const message = new Message(body);
  return {
    state: message.text('state', /^(?:accepted|pending)$/) as RedeemAnswer['state'],
    contractVersion: message.version('contractVersion'),
    ...introductionIn(message),
    ...featuresIn(message),
    ...message.optional('attach', asOutcome),
    ...message.optional('governance', asOutcome),
    ...message.optional('warnings', (value) =>
      new Message({ value }).list('value', limits.warnings, (item) => asText(item, limits.warning)),
    ),
  };
}

function introductionIn(message: Message): { readonly logIntroduction?: string } {
  return message.optional('logIntroduction', (value) => asText(value, longestIntroductionChars));
}

/** The outcome of a soft step at the other site. */
function asOutcome(value: unknown): NonNullable<AcceptanceAnswer['attach']> {
  const told = new Message(value);
  return {
    outcome: told.text('outcome', /^(?:done|skipped|failed)$/) as 'done' | 'skipped' | 'failed',
    ...told.optional('message', (text) => asText(text, limits.warning)),
  };
}

/** `sender` is the authenticated peer. It can offer only its own workloads. */
export function parseHeartbeat(
  body: Uint8Array,
  sender: TrustDomain,
  receiver: TrustDomain,
): Heartbeat {
  const message = new Message(body);
  const offers = message.list('offers', limits.offers, (item) => {
    const offer = new Message(item);
    const id = SpiffeId.parse(offer.text('spiffeID', /^spiffe:/));
    if (!id.memberOf(sender))
      throw malformed(`an offer has the SPIFFE ID ${id.toString()} of another trust domain`);
    return {
      name: offer.text('name', /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/),
      spiffeID: id.toString(),
      grantedTo: offer.list('grantedTo', limits.grantedTo, (granted) => {
        if (granted === '*') return '*';
        const grantee = SpiffeId.parse(asText(granted, 2048));
        if (!grantee.memberOf(receiver))
          throw malformed('an offer is granted to a SPIFFE ID of another trust domain');
        return grantee.toString();
      }),
    };
  });
  if (new Set(offers.map(({ name }) => name)).size !== offers.length) {
    throw malformed('two offers have the same name');
  }
  return {
    contractVersion: message.version('contractVersion'),
    bundleSequence: message.count('bundleSequence'),
    offers,
    ...message.optional('clusters', asClusters),
    ...message.optional('holds', (value) => {
      const held = new Message(value);
      return { sequence: held.count('sequence'), hash: held.text('hash', /^[0-9a-f]{64}$/) };
    }),
    ...message.optional('log', parseLogPart),
    ...message.optional('clock', parseClockPart),
    ...message.optional('features', parseFeaturesPart),
  };
}

function asClusters(value: unknown): readonly string[] {
  const clusters = new Message({ value }).list('value', mostClustersTold, (item) =>
    new Message({ item }).text('item', /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/),
  );
  if (new Set(clusters).size === clusters.length) return clusters;
  throw malformed('two clusters have the same name');
}

export function parseAnnouncement(body: Uint8Array): Announcement {
  return { bundleSequence: new Message(body).count('bundleSequence') };
}

/** The highest version that both sites support. Throws if there is none. */
export function agreeOnVersion(
  theirs: readonly number[],
  other: string,
  ours: readonly number[] = contractVersions,
): number {
  const agreed = Math.max(...ours.filter((version) => theirs.includes(version)));
  if (Number.isFinite(agreed)) return agreed;
  throw peeringError(
    'HANSA_CONTRACT_VERSION',
    `This site supports the versions ${ours.join(', ')} of the federation API, and ${other} supports ${theirs.join(', ') || 'none'}. Update the older of the two.`,
  );
}

function asVersions(value: unknown): readonly number[] {
  return new Message({ value }).list('value', limits.versions, asVersion);
}
