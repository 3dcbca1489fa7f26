// The settings of the trust plane, and the function that builds them from its configuration keys.

import { needs, type ValuesOf } from '../core/config/config-key.ts';
import { definePlaneSettings } from '../core/config/plane-settings.ts';
import { trustKeys } from './config-keys.ts';

/** How the web listener gets its certificate. */
export type WebCertificateSettings =
  | {
      readonly from: 'files';
      /** PEM; absolute paths. */
      readonly certFile: string;
      readonly keyFile: string;
      readonly fileSyncSeconds: number;
    }
  | {
      readonly from: 'acme';
      readonly directoryUrl: string;
      readonly domainName: string;
      readonly email: string | undefined;
      readonly challenge: 'tls-alpn-01' | 'http-01';
      readonly httpAddress: { readonly host: string; readonly port: number };
      /** PEM file that verifies the ACME server; undefined: the public roots. */
      readonly caFile: string | undefined;
    };

export interface RotationSettings {
  /** The minimum time between publication and activation of an authority. */
  readonly spreadSeconds: number;
  /** The maximum time that a rotation waits for receipts of live peers. */
  readonly receiptDeadlineSeconds: number;
  /** An operator confirmed that the clock is right up to this time. */
  readonly clockTrustedUntilMs?: number | undefined;
}

export interface TrustSettings {
  readonly refreshHintSeconds: number;
  readonly maxFederations: number;
  readonly web: WebCertificateSettings | undefined;
  /** The iss of JWT-SVIDs and of OIDC discovery. */
  readonly jwtIssuer: string | undefined;
  readonly rotation: RotationSettings;
  /** How long after its expiry an SVID of an agent or bot can be renewed with its registered key. */
  readonly reattestWithinSeconds: number;
}

export const defaultTrustSettings: TrustSettings = {
  refreshHintSeconds: 300,
  maxFederations: 50,
  web: undefined,
  jwtIssuer: undefined,
  rotation: { spreadSeconds: 600, receiptDeadlineSeconds: 86_400, clockTrustedUntilMs: undefined },
  reattestWithinSeconds: 604_800,
};

type TrustValues = ValuesOf<typeof trustKeys>;

export const trustSettings = definePlaneSettings({
  keys: trustKeys,
  read: (values, site): TrustSettings => {
    const refreshHintSeconds = values['bundle.refreshHintSeconds'];
    const acmeName = values['acme.domainName'];
    return {
      refreshHintSeconds,
      maxFederations: values.maxFederations,
      web: site.web === 'off' ? undefined : webCertificate(values),
      jwtIssuer:
        values['jwt.issuer'] ?? (acmeName === undefined ? undefined : `https://${acmeName}`),
      rotation: {
        spreadSeconds: values['ca.spreadSeconds'] ?? 2 * refreshHintSeconds,
        receiptDeadlineSeconds: values['ca.receiptDeadlineSeconds'],
        clockTrustedUntilMs: site.authority.clockTrustedUntilMs,
      },
      reattestWithinSeconds: values['join.reattestWithinSeconds'],
    };
  },
  problems: (values, site, remembered) => {
    const files =
      values['servingCert.certFile'] !== undefined || values['servingCert.keyFile'] !== undefined;
    const acme =
      values['acme.directoryUrl'] !== undefined || values['acme.domainName'] !== undefined;
    return [
      ...needs(values, 'servingCert.certFile', 'servingCert.keyFile'),
      ...needs(values, 'servingCert.keyFile', 'servingCert.certFile'),
      ...needs(values, 'acme.directoryUrl', 'acme.domainName'),
      ...needs(values, 'acme.domainName', 'acme.directoryUrl'),
      ...(files && acme
        ? [
            `servingCert.certFile and acme exclude each other: set only one of them${remembered('servingCert.certFile', 'servingCert.keyFile', 'acme.directoryUrl', 'acme.domainName')}`,
          ]
        : []),
      ...(site.web !== 'off' && !files && !acme
        ? [
            'web needs a certificate: set servingCert.certFile and servingCert.keyFile, or acme.directoryUrl and acme.domainName',
          ]
        : []),
      ...(acme && values['acme.tosAccepted'] !== 'true'
        ? ['acme needs acme.tosAccepted: true, once you have read the terms of the ACME server']
        : []),
    ];
  },
  warnings: ({ rotation: { spreadSeconds }, refreshHintSeconds }) =>
    spreadSeconds >= refreshHintSeconds
      ? []
      : [
          `ca.spreadSeconds (${spreadSeconds}) is less than bundle.refreshHintSeconds (${refreshHintSeconds}): a new authority may sign before peers have fetched it. Remove ca.spreadSeconds, or set it to ${2 * refreshHintSeconds} or more.`,
        ],
});

function webCertificate(values: TrustValues): WebCertificateSettings | undefined {
  const certFile = values['servingCert.certFile'];
  const keyFile = values['servingCert.keyFile'];
  if (certFile !== undefined && keyFile !== undefined) {
    const fileSyncSeconds = values['servingCert.fileSyncInterval'];
    return { from: 'files', certFile, keyFile, fileSyncSeconds };
  }
  const directoryUrl = values['acme.directoryUrl'];
  const domainName = values['acme.domainName'];
  if (directoryUrl === undefined || domainName === undefined) return undefined;
  return {
    from: 'acme',
    directoryUrl,
    domainName,
    email: values['acme.email'],
    challenge: values['acme.challenge'],
    httpAddress: values['acme.httpAddress'],
    caFile: values['acme.caFile'],
  };
}
