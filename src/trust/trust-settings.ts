// What an operator sets of the trust plane. The server's configuration makes one of these.

import type { KeyType } from '../core/identity/keys.ts';
import type { UpstreamFiles } from '../core/identity/upstream.ts';

/** How the web listener comes by its certificate. */
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
      /** PEM of what the ACME server is verified with; undefined: the public roots. */
      readonly caFile: string | undefined;
    };

export interface AuthoritySettings {
  readonly keyType: KeyType;
  readonly jwtKeyType: KeyType;
  readonly ttlSeconds: number;
  /** How long a prepared authority is published before it signs, at least. */
  readonly spreadSeconds: number;
  /** How long receipts of active peers are waited for, at most. */
  readonly receiptDeadlineSeconds: number;
  /** Up to when an operator said that the clock is right. */
  readonly clockTrustedUntilMs: number | undefined;
  /** Undefined: the site is its own root. */
  readonly upstream: UpstreamFiles | undefined;
}

export interface TrustSettings {
  readonly refreshHintSeconds: number;
  readonly maxFederations: number;
  readonly web: WebCertificateSettings | undefined;
  /** The iss of JWT-SVIDs and of OIDC discovery. */
  readonly jwtIssuer: string | undefined;
  readonly authority: AuthoritySettings;
}

export const defaultTrustSettings: TrustSettings = {
  refreshHintSeconds: 300,
  maxFederations: 50,
  web: undefined,
  jwtIssuer: undefined,
  authority: {
    keyType: 'ec-p256',
    jwtKeyType: 'ec-p256',
    ttlSeconds: 90 * 24 * 3600,
    spreadSeconds: 600,
    receiptDeadlineSeconds: 86_400,
    clockTrustedUntilMs: undefined,
    upstream: undefined,
  },
};
