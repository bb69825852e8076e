package io.leafseal.client;

import java.security.GeneralSecurityException;
import java.security.cert.CertPathBuilder;
import java.security.cert.CertPathBuilderException;
import java.security.cert.CertStore;
import java.security.cert.Certificate;
import java.security.cert.CollectionCertStoreParameters;
import java.security.cert.PKIXBuilderParameters;
import java.security.cert.PKIXCertPathBuilderResult;
import java.security.cert.TrustAnchor;
import java.security.cert.X509CertSelector;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * When the chain of an engine's certificate expires, as it was verified for a connection.
 *
 * <p>The JDK gives the certificates that the engine has sent, in its order, rather than the chain that was verified: the authority may be
 * missing there, and other certificates may be among them. A resumed session was not verified at all. So the chain is built again, of what
 * the engine has sent and this side trusts, and unlike in the JDK an authority that has expired verifies nothing.
 */
final class ChainExpiry {
    private final X509Certificate[] authorities;

    ChainExpiry(X509Certificate[] authorities) {
        this.authorities = authorities.clone();
    }

    /**
     * When the first certificate of the chain expires, its authority included. Of several chains, the longest-lived one counts.
     *
     * @param sent the engine's certificate, and those sent with it
     * @throws CertPathBuilderException if no chain is valid now
     */
    Instant of(Certificate[] sent) throws GeneralSecurityException {
        Instant expiry = null;
        Instant moment = Instant.now();
        while (true) {
            try {
                // A chain that is valid when the last one expires prolongs it.
                expiry = first(chain(sent, moment));
                moment = expiry.plusMillis(1);
            } catch (CertPathBuilderException none) {
                if (expiry == null) {
                    throw none;
                }
                return expiry;
            }
        }
    }

    private static Instant first(List<X509Certificate> chain) {
        return chain.stream().map(X509Certificate::getNotAfter).min(Date::compareTo).orElseThrow().toInstant();
    }

    /** A chain that is valid at this time. */
    private List<X509Certificate> chain(Certificate[] sent, Instant moment) throws GeneralSecurityException {
        Date date = Date.from(moment);
        Set<TrustAnchor> anchors = Arrays.stream(authorities)
                .filter(authority -> !date.before(authority.getNotBefore()) && !date.after(authority.getNotAfter()))
                .map(authority -> new TrustAnchor(authority, null))
                .collect(Collectors.toSet());
        if (anchors.stream().anyMatch(anchor -> anchor.getTrustedCert().equals(sent[0]))) {
            return List.of((X509Certificate) sent[0]);
        }
        if (anchors.isEmpty()) {
            throw new CertPathBuilderException("no authority is valid");
        }
        X509CertSelector target = new X509CertSelector();
        target.setCertificate((X509Certificate) sent[0]);
        PKIXBuilderParameters parameters = new PKIXBuilderParameters(anchors, target);
        parameters.addCertStore(CertStore.getInstance("Collection", new CollectionCertStoreParameters(Arrays.asList(sent))));
        parameters.setDate(date);
        parameters.setRevocationEnabled(false);
        parameters.setMaxPathLength(-1);
        var built = (PKIXCertPathBuilderResult) CertPathBuilder.getInstance("PKIX").build(parameters);
        List<X509Certificate> chain = new ArrayList<>(List.of(built.getTrustAnchor().getTrustedCert()));
        built.getCertPath().getCertificates().forEach(certificate -> chain.add((X509Certificate) certificate));
        return chain;
    }
}
