// The route to mint a JWT-SVID: an owner of the site issues a token for a program that cannot use the
// workload socket.

import { timestamp } from '../../../api/object.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { changeDraft } from '../../../core/access/audit-draft.ts';
import { invalidField, readFields, readSeconds } from '../../../core/access/request-body.ts';
import { maxJwtTtlSeconds, signJwtSvid } from '../../../core/identity/jwt/sign-svid.ts';
import { commitFenced } from '../../../core/lease/current-fence.ts';
import type { PlaneContext } from '../../../core/plane/plane.ts';
import { type ApiRequest, type PlaneRoute, route } from '../../../core/plane/route.ts';
import { notMinter } from './mint.ts';
import { trustPaths } from '../../paths.ts';

export interface MintedJwtSvid {
  readonly spiffeId: string;
  /** A secret until it expires. */
  readonly token: string;
  readonly keyId: string;
  readonly audience: readonly string[];
  readonly expiresAt: string;
}

export interface MintJwtParts
  extends Pick<PlaneContext, 'trustDomain' | 'authority' | 'store' | 'audit' | 'clock'> {
  readonly jwtIssuer?: string | undefined;
}

/** Enough for a SPIFFE ID of full length and as many audiences as a token may have. */
const maxBodyBytes = 16 * 1024;
const leastTtlSeconds = 10;

/** POST: `{spiffeID, audience: [...], ttlSeconds?}`. */
export function mintJwtRoute(parts: MintJwtParts): PlaneRoute {
  return route({
    listener: 'api',
    method: 'POST',
    path: trustPaths.mintJwt,
    allow: 'owner',
    refusal: notMinter,
    handle: async (request) => ({
      status: 201,
      contentType: 'application/json',
      headers: { 'cache-control': 'no-store' },
      body: JSON.stringify(await mintJwt(parts, request)),
    }),
  });
}

async function mintJwt(parts: MintJwtParts, request: ApiRequest): Promise<MintedJwtSvid> {
  const { trustDomain, authority, store, audit, clock, jwtIssuer } = parts;
  const { caller, address } = request;
  const fields = await request.json(maxBodyBytes, (body) =>
    readFields(body, ['spiffeID', 'audience', 'ttlSeconds']),
  );
  const ttlSeconds = readSeconds(fields, 'ttlSeconds', leastTtlSeconds, maxJwtTtlSeconds);
  const subject = SpiffeId.parse(typeof fields.spiffeID === 'string' ? fields.spiffeID : '');
  const audience = readAudience(fields);
  const svid = await signJwtSvid({
    key: authority.jwtSigner,
    trustDomain,
    subject,
    audience,
    ttlSeconds,
    issuer: jwtIssuer,
    nowMs: clock.now(),
  });
  const expiresAt = timestamp(svid.expiresAtMs);
  await commitFenced(store, {
    audit: [
      audit.record(
        changeDraft(caller, address === undefined ? {} : { address }, {
          verb: 'svid.mint',
          kind: 'SVID',
          name: subject.toString(),
          reason: `JWT-SVID for ${JSON.stringify(audience).slice(0, 200)} with key ${svid.keyId}, until ${expiresAt}`,
        }),
      ),
    ],
  });
  return {
    spiffeId: subject.toString(),
    token: svid.token,
    keyId: svid.keyId,
    audience,
    expiresAt,
  };
}

function readAudience({ audience }: Readonly<Record<string, unknown>>): readonly string[] {
  if (Array.isArray(audience) && audience.every((one) => typeof one === 'string')) return audience;
  throw invalidField('audience', audience, 'a list of strings: the audiences of the token');
}
