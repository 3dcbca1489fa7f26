// Judges the Secret with the certificate of a bundle endpoint: whether SPIRE can serve it, and whether clients
// accept it for the name that they call. Pure.

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { isObject } from '../../api/schema/json.ts';
import { federationServiceName } from '../spire/spire-names.ts';

export interface CertificateProblem {
  readonly reason:
    | 'SecretMissing'
    | 'SecretUnreadable'
    | 'SecretMalformed'
    | 'CertificateExpired'
    | 'CertificateForOtherName';
  readonly message: string;
  /** SPIRE would not start with it, so a server that runs must not get it. */
  readonly isFatal: boolean;
}

export interface CertificateQuestion {
  /** The Secret, as the API server sent it. Undefined: there is none. */
  readonly secret: unknown;
  readonly secretName: string;
  readonly namespace: string;
  /** The name that clients call; undefined: not known. */
  readonly host: string | undefined;
  /** A router of OpenShift calls the Service, and shows clients a certificate of its own. */
  readonly reencrypts?: boolean;
  readonly nowMs: number;
}

/** More than any certificate chain has. */
const mostBytes = 256 * 1024;

export function judgeCertificate(question: CertificateQuestion): CertificateProblem | undefined {
  const { secret, secretName, namespace, host, reencrypts = false, nowMs } = question;
  const name = `The Secret ${namespace}/${secretName}`;
  if (secret === undefined) {
    return {
      reason: 'SecretMissing',
      message: `${name} does not exist. Create it with tls.crt and tls.key: kubectl create secret tls ${secretName} -n ${namespace} --cert=FILE --key=FILE`,
      isFatal: true,
    };
  }
  const malformed = (what: string): CertificateProblem => ({
    reason: 'SecretMalformed',
    message: `${name} ${what}. Write a PEM certificate chain to tls.crt and its private key to tls.key.`,
    isFatal: true,
  });
  const certificate = valueIn(secret, 'tls.crt');
  const key = valueIn(secret, 'tls.key');
  if (certificate === undefined) return malformed('has no tls.crt');
  if (key === undefined) return malformed('has no tls.key');
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(certificateBlock.exec(certificate)?.[0] ?? '');
  } catch {
    return malformed('has no certificate in tls.crt');
  }
  try {
    if (!isReadByGo(leaf.publicKey)) {
      return malformed(
        'has a key of a type that SPIRE cannot read: use RSA, ECDSA with P-256, P-384 or P-521, or Ed25519',
      );
    }
    if (!leaf.checkPrivateKey(createPrivateKey(keyBlock.exec(key)?.[0] ?? ''))) {
      return malformed('has a key in tls.key that is not the key of its certificate');
    }
  } catch {
    return malformed('has no private key in tls.key');
  }
  if (leaf.validToDate.getTime() < nowMs) {
    return {
      reason: 'CertificateExpired',
      message: `The certificate in the Secret ${namespace}/${secretName} expired at ${leaf.validToDate.toISOString()}. Others refuse the bundle endpoint. Renew it.`,
      isFatal: false,
    };
  }
  if (reencrypts) {
    // Without a destinationCACertificate, the router asks for this name, and for the service CA of the cluster.
    const service = `${federationServiceName}.${namespace}.svc`;
    if (leaf.checkHost(service) !== undefined) return undefined;
    return {
      reason: 'CertificateForOtherName',
      message: `The certificate in the Secret ${namespace}/${secretName} is not for ${service}, by which the router calls the bundle endpoint when it encrypts again. To serve this certificate to others, set spec.federation.exposure.termination to passthrough. Otherwise use one that the service CA of the cluster issued for this name.`,
      isFatal: false,
    };
  }
  if (host !== undefined && leaf.checkHost(host) === undefined) {
    return {
      reason: 'CertificateForOtherName',
      message: `The certificate in the Secret ${namespace}/${secretName} is not for ${host}, by which others call the bundle endpoint. Use a certificate with this name, or correct spec.federation.exposure.host.`,
      isFatal: false,
    };
  }
  return undefined;
}

/** As `tls.X509KeyPair` of Go, by which SPIRE reads the files. OpenSSL takes other labels, DER, and other curves. */
const certificateBlock = blockOf('CERTIFICATE');
const keyBlock = blockOf('(?:[A-Z ]+ )?PRIVATE KEY');

function blockOf(label: string): RegExp {
  return new RegExp(`^-----BEGIN ${label}-----\\r?\\n[^-]*^-----END ${label}-----[ \\t\\r]*$`, 'm');
}

function isReadByGo({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  if (asymmetricKeyType === 'rsa' || asymmetricKeyType === 'ed25519') return true;
  const { namedCurve = '' } = asymmetricKeyDetails ?? {};
  return ['secp224r1', 'prime256v1', 'secp384r1', 'secp521r1'].includes(namedCurve);
}

function valueIn(secret: unknown, key: string): string | undefined {
  const data = isObject(secret) ? secret['data'] : undefined;
  const value = isObject(data) ? data[key] : undefined;
  if (typeof value !== 'string' || value === '' || value.length > mostBytes) return undefined;
  return Buffer.from(value, 'base64').toString('latin1');
}
