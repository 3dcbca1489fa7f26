// The route behind `hansa svid validate`: verifies an SVID as the site itself does, against the bundles
// that it trusts now, and returns the violated rule. For troubleshooting.

import { spiffeFederationKind } from '../../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../../api/object.ts';
import { readFields, readString } from '../../../core/access/request-body.ts';
import { type CoreErrorCode, HansaError } from '../../../core/errors/error.ts';
import {
  type Claims,
  maxTokenBytes,
  validateJwtSvid,
} from '../../../core/identity/jwt/svid-validator.ts';
import { parseCertificatesPem } from '../../../core/identity/x509/pem.ts';
import { maxChainLength, validateChain } from '../../../core/identity/x509/svid-validator.ts';
import type { PlaneContext } from '../../../core/plane/plane.ts';
import { type ApiRequest, type PlaneRoute, route } from '../../../core/plane/route.ts';
import { trustPaths } from '../../paths.ts';

/** The content of a valid SVID, or the rule that an invalid one violates. */
export type Verdict = GoodSvid | BadSvid;

export interface GoodSvid {
  readonly valid: true;
  readonly type: SvidType;
  readonly spiffeId: string;
  readonly notAfter: string;
  /** Of a JWT-SVID: the key that signed it. */
  readonly keyId?: string;
  readonly audience?: readonly string[];
  readonly claims?: Claims;
  /** Of an X.509-SVID. */
  readonly serialNumber?: string;
  /** SHA-256 of the authority at the end of its path. */
  readonly authority?: string;
}

export interface BadSvid {
  readonly valid: false;
  readonly type: SvidType;
  readonly code: CoreErrorCode;
  readonly rule: string;
  readonly message: string;
}

export type SvidType = 'X509-SVID' | 'JWT-SVID';

export type ValidateParts = Pick<PlaneContext, 'bundles' | 'clock'>;

/** Of a chain of full length with RSA keys, in PEM. */
const maxBodyBytes = 128 * 1024;

/** POST: `{token, audience}` or `{certificates}`, the leaf first, in PEM. Answers 200 with a verdict. */
export function validateRoute(parts: ValidateParts): PlaneRoute {
  return route({
    listener: 'api',
    method: 'POST',
    path: trustPaths.validate,
    // It shows which trust domains the site trusts: no more than the list of federations does.
    allow: 'rights',
    rights: [{ verb: 'list', kind: spiffeFederationKind }],
    handle: async (request) => ({
      status: 200,
      contentType: 'application/json',
      headers: { 'cache-control': 'no-store' },
      body: JSON.stringify(await verdictOf(parts, request)),
    }),
  });
}

async function verdictOf(parts: ValidateParts, request: ApiRequest): Promise<Verdict> {
  const fields = await request.json(maxBodyBytes, (body) =>
    readFields(body, ['token', 'audience', 'certificates']),
  );
  if ((fields.token === undefined) === (fields.certificates === undefined)) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      'The request must contain either a token or certificates.',
    );
  }
  if (fields.certificates !== undefined) {
    const pem = readString(fields, 'certificates', () => true, 'certificates in PEM');
    return judged('X509-SVID', 'HANSA_CERTIFICATE_INVALID', () => judgeChain(parts, pem));
  }
  const token = readString(
    fields,
    'token',
    () => true,
    `a token of ${maxTokenBytes} bytes at most`,
  );
  const audience = readString(
    fields,
    'audience',
    (text) => text !== '',
    'the audience of the token',
  );
  return judged('JWT-SVID', 'HANSA_JWT_INVALID', () => judgeToken(parts, token, audience));
}

function judged(type: SvidType, code: CoreErrorCode, judge: () => GoodSvid): Verdict {
  try {
    return judge();
  } catch (error) {
    if (!(error instanceof HansaError) || error.code !== code) throw error;
    const rule = error.details?.causes?.[0]?.reason ?? '';
    return { valid: false, type, code, rule, message: error.message };
  }
}

function judgeChain({ bundles, clock }: ValidateParts, pem: string): GoodSvid {
  const chain = parseCertificatesPem(pem, maxChainLength);
  const { id, notAfterMs, serialHex, authorityFingerprint } = validateChain(
    chain,
    bundles,
    clock.now(),
  );
  return {
    valid: true,
    type: 'X509-SVID',
    spiffeId: id.toString(),
    notAfter: timestamp(notAfterMs),
    serialNumber: serialHex,
    authority: authorityFingerprint,
  };
}

function judgeToken({ bundles, clock }: ValidateParts, token: string, audience: string): GoodSvid {
  const svid = validateJwtSvid(token, audience, bundles, clock.now());
  return {
    valid: true,
    type: 'JWT-SVID',
    spiffeId: svid.id.toString(),
    notAfter: timestamp(svid.expiresAtMs),
    keyId: svid.keyId,
    audience: svid.audience,
    claims: svid.claims,
  };
}
