// What a cluster needs to accept the JWT-SVID of a site as credential: the structured authentication
// configuration of kube-apiserver, and the RBAC for the user that it yields. Pure.

import {
  type Manifest,
  siteIdOf,
  siteUser,
  userPrefix,
} from '../../core/kube/manifests/manifest.ts';
import { accessManifests } from './access-manifests.ts';

export interface AuthConfigOptions {
  readonly trustDomain: string;
  /** The site's jwt.issuer. */
  readonly issuer: string;
  /** spec.credential.jwtSVID.audience of the Cluster. */
  readonly audience: string;
  /** PEM, if the certificate of the issuer is not signed by a public authority. */
  readonly issuerCa?: string | undefined;
  /** The name of the roles and bindings. */
  readonly name?: string;
  readonly publishCaIn?: string;
  /** Of the ServiceAccount by which the cluster proves its keys. Default: kube-fed. */
  readonly namespace?: string;
}

export interface AuthConfig {
  /** For the file of --authentication-config. If there is one already, its list `jwt` gets the entry. */
  readonly configuration: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly jwt: readonly object[];
  };
  /** For kubectl apply. */
  readonly access: readonly Manifest[];
}

export function authConfigManifests(options: AuthConfigOptions): AuthConfig {
  const { trustDomain, issuer, audience, issuerCa, name, publishCaIn, namespace } = options;
  const id = siteIdOf(trustDomain);
  return {
    configuration: {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: 'AuthenticationConfiguration',
      jwt: [
        {
          issuer: {
            url: issuer,
            audiences: [audience],
            ...(issuerCa === undefined ? {} : { certificateAuthority: issuerCa }),
          },
          // Workloads of the site get JWT-SVIDs of the same issuer, also for this audience.
          claimValidationRules: [
            {
              expression: `claims.sub == ${JSON.stringify(id)}`,
              message: `only ${id} may authenticate`,
            },
          ],
          claimMappings: { username: { claim: 'sub', prefix: userPrefix } },
        },
      ],
    },
    access: accessManifests({
      subject: { kind: 'User', name: siteUser(trustDomain) },
      trustDomain,
      ...(name === undefined ? {} : { name }),
      ...(namespace === undefined ? {} : { namespace }),
      ...(publishCaIn === undefined ? {} : { publishCaIn }),
    }),
  };
}
