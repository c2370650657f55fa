/** The codes of Node for a certificate that it refuses. */
const refused = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REJECTED',
  'CERT_REVOKED',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** What no retry mends, and what to do about it. */
export const CERTIFICATE_REFUSED: string =
  'the certificate of the server is not trusted, so no lock can be acquired; give its CA, such as with ' +
  'NODE_EXTRA_CA_CERTS, use the host name that it is for, or renew it'

/** Whether the connection was refused because of the certificate of the server. */
export function isCertificateError(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return false
  // mysql2 replaces the code of any failure of the TLS handshake.
  return (
    refused.has(error.code) || (error.code === 'HANDSHAKE_SSL_ERROR' && /certificate/i.test(error.message))
  )
}
