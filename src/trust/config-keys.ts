// The configuration keys of the trust plane. settings.ts turns their values into settings.

import { configKey, optionalConfigKey } from '../core/config/config-key.ts';
import {
  formatListenAddress,
  parseAdvertisedUrl,
  parseChoice,
  parseCount,
  parseDnsName,
  parseEmail,
  parseHttpsUrl,
  parseListenAddress,
  parsePath,
} from '../core/config/config-values.ts';

export const trustKeys = {
  'servingCert.certFile': optionalConfigKey({
    after: 'web',
    placeholder: 'FILE',
    meaning:
      'The certificate chain of the web listener in PEM, the leaf first. Read again when it changes.',
    withoutIt: 'acme is needed',
    parse: parsePath,
  }),
  'servingCert.keyFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning: 'The private key of servingCert.certFile in PEM.',
    withoutIt: 'acme is needed',
    parse: parsePath,
  }),
  'servingCert.fileSyncInterval': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How often servingCert.certFile and servingCert.keyFile are read again, also where no change was noticed.',
    default: '300',
    parse: parseCount(30, 3600),
  }),
  'acme.directoryUrl': optionalConfigKey({
    placeholder: 'URL',
    meaning: "The directory of the ACME server (RFC 8555), for example Let's Encrypt's.",
    withoutIt: 'no certificate is ordered',
    parse: parseHttpsUrl,
  }),
  'acme.domainName': optionalConfigKey({
    placeholder: 'NAME',
    meaning: 'The DNS name that the certificate is for.',
    withoutIt: 'required with acme.directoryUrl',
    parse: parseDnsName,
  }),
  'acme.email': optionalConfigKey({
    placeholder: 'ADDRESS',
    meaning: 'Whom the ACME server may write to.',
    withoutIt: 'the account has no contact',
    parse: parseEmail,
  }),
  'acme.tosAccepted': configKey({
    placeholder: 'true|false',
    meaning: "Whether you agree to the ACME server's terms of service.",
    default: 'false',
    parse: parseChoice(['true', 'false']),
  }),
  'acme.challenge': configKey({
    placeholder: 'TYPE',
    meaning:
      'How control of the name is proven: tls-alpn-01 on the web listener, or http-01 on acme.httpAddress.',
    default: 'tls-alpn-01',
    parse: parseChoice(['tls-alpn-01', 'http-01']),
  }),
  'acme.httpAddress': configKey({
    placeholder: 'HOST:PORT',
    meaning: 'Where http-01 is answered, without TLS, and only while a challenge is open.',
    default: '0.0.0.0:80',
    parse: parseListenAddress,
    format: formatListenAddress,
  }),
  'acme.caFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning: 'Certificates in PEM that the ACME server itself is verified with, for a private one.',
    withoutIt: 'the roots that Node knows',
    parse: parsePath,
  }),
  'bundle.refreshHintSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How often others are asked to fetch the bundle of this site.',
    default: '300',
    parse: parseCount(60, 3600),
  }),
  'ca.spreadSeconds': optionalConfigKey({
    after: 'ca.ttlSeconds',
    placeholder: 'SECONDS',
    meaning:
      'How long a new authority is published before it signs, at least: others fetch the bundle meanwhile.',
    withoutIt: 'twice bundle.refreshHintSeconds',
    parse: parseCount(0, 2_592_000),
  }),
  'ca.receiptDeadlineSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long a rotation waits for active peers to confirm the new bundle, at most; then it goes on and says who did not.',
    default: '86400',
    parse: parseCount(0, 2_592_000),
  }),
  'jwt.issuer': optionalConfigKey({
    after: 'jwt.keyType',
    placeholder: 'URL',
    meaning: 'The iss of JWT-SVIDs, and of OIDC discovery: where the web listener is reached.',
    withoutIt: 'https://acme.domainName where that is set; else JWT-SVIDs have no iss',
    parse: parseAdvertisedUrl,
  }),
  maxFederations: configKey({
    placeholder: 'COUNT',
    meaning:
      'How many SPIFFEFederations there may be. MAX_FEDERATED_CLUSTERS is read where HANSA_MAX_FEDERATIONS is not set.',
    default: '50',
    otherVariable: 'MAX_FEDERATED_CLUSTERS',
    parse: parseCount(1, 100_000),
  }),
} as const;
