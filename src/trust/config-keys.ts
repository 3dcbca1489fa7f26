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
      'The certificate chain of the web listener in PEM, the leaf first. The site reads it again after a change.',
    withoutIt: 'required, unless acme is set',
    parse: parsePath,
  }),
  'servingCert.keyFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning: 'The private key of servingCert.certFile in PEM.',
    withoutIt: 'required, unless acme is set',
    parse: parsePath,
  }),
  'servingCert.fileSyncInterval': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How often the site reads servingCert.certFile and servingCert.keyFile again, even if it noticed no change.',
    default: '300',
    parse: parseCount(30, 3600),
  }),
  'acme.directoryUrl': optionalConfigKey({
    placeholder: 'URL',
    meaning: "The directory of the ACME server (RFC 8555), for example Let's Encrypt's.",
    withoutIt: 'the site orders no certificate',
    parse: parseHttpsUrl,
  }),
  'acme.domainName': optionalConfigKey({
    placeholder: 'NAME',
    meaning: 'The DNS name of the certificate.',
    withoutIt: 'required with acme.directoryUrl',
    parse: parseDnsName,
  }),
  'acme.email': optionalConfigKey({
    placeholder: 'ADDRESS',
    meaning: 'The e-mail address that the ACME server may write to.',
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
      'How the site proves control of the name: tls-alpn-01 on the web listener, or http-01 on acme.httpAddress.',
    default: 'tls-alpn-01',
    parse: parseChoice(['tls-alpn-01', 'http-01']),
  }),
  'acme.httpAddress': configKey({
    placeholder: 'HOST:PORT',
    meaning:
      'The address that answers http-01 challenges, without TLS, and only while a challenge is open.',
    default: '0.0.0.0:80',
    parse: parseListenAddress,
    format: formatListenAddress,
  }),
  'acme.caFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning: 'CA certificates in PEM that verify a private ACME server.',
    withoutIt: 'the root certificates of Node',
    parse: parsePath,
  }),
  'bundle.refreshHintSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'The refresh hint of the bundle: how often peers should fetch it.',
    default: '300',
    parse: parseCount(60, 3600),
  }),
  'ca.spreadSeconds': optionalConfigKey({
    after: 'ca.ttlSeconds',
    placeholder: 'SECONDS',
    meaning:
      'The minimum time between the publication of a new authority and its activation, in which peers fetch the bundle.',
    withoutIt: 'twice bundle.refreshHintSeconds',
    parse: parseCount(0, 2_592_000),
  }),
  'ca.receiptDeadlineSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'The maximum time that a rotation waits for live peers to confirm the new bundle. Then the rotation continues, and names the peers that did not confirm.',
    default: '86400',
    parse: parseCount(0, 2_592_000),
  }),
  'jwt.issuer': optionalConfigKey({
    after: 'jwt.keyType',
    placeholder: 'URL',
    meaning: 'The iss of JWT-SVIDs and of OIDC discovery: the URL of the web listener.',
    withoutIt: 'https://acme.domainName if that is set; otherwise JWT-SVIDs have no iss',
    parse: parseAdvertisedUrl,
  }),
  'join.reattestWithinSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long after its expiry an SVID of an agent or bot can be renewed with its registered key. 0: it cannot, and the member must join again.',
    default: '604800',
    parse: parseCount(0, 2_592_000),
  }),
  maxFederations: configKey({
    placeholder: 'COUNT',
    meaning:
      'The maximum number of SPIFFEFederations. If HANSA_MAX_FEDERATIONS is not set, the site reads MAX_FEDERATED_CLUSTERS.',
    default: '50',
    otherVariable: 'MAX_FEDERATED_CLUSTERS',
    parse: parseCount(1, 100_000),
  }),
} as const;
