package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// What a person can mend. Errors of all methods wrap one of these where it is the cause.
var (
	ErrCredentials = fmt.Errorf("%w for AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN where they run out), "+
		"or AWS_PROFILE, or run under a role", objstore.ErrCredentials)
	ErrDenied      = fmt.Errorf("%w: check the policy of the bucket, the table and the role", objstore.ErrDenied)
	ErrNoBucket    = errors.New("the bucket does not exist: make it, or correct its name or the endpoint")
	ErrRegion      = errors.New("this is the wrong region: set AWS_REGION or --s3-region to that of the bucket")
	ErrUnreachable = errors.New("the endpoint cannot be reached: check its URL, that it runs, and the network")
	ErrScheme      = errors.New("the endpoint speaks HTTP and not HTTPS: write its URL with http://")
)

// Explain puts the error that a person can act on before an error of the SDK, when it knows one.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if hint := explanation(err); hint != nil && !errors.Is(err, hint) {
		return fmt.Errorf("%w: %w", hint, err)
	}
	return err
}

func explanation(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "NoSuchBucket":
			return ErrNoBucket
		case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "InvalidToken",
			"TokenRefreshRequired", "InvalidSecurity",
			"UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException":
			return ErrCredentials
		case "AccessDenied", "AccessDeniedException", "Forbidden", "AllAccessDisabled", "AccountProblem":
			return ErrDenied
		case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
			return ErrRegion
		case "RequestTimeTooSkewed": // a 403 that says what to mend: the clock
			return nil
		}
	}
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) { // without a code that is known
		switch answer.HTTPStatusCode() {
		case http.StatusUnauthorized:
			return ErrCredentials
		case http.StatusForbidden:
			return ErrDenied
		}
	}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return ErrScheme
	case errors.Is(err, ErrCredentials):
		return nil
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return ErrUnreachable
	}
	return nil
}

// ExplainCredentials makes the failures of p wrap ErrCredentials.
func ExplainCredentials(p aws.CredentialsProvider) aws.CredentialsProvider {
	if p == nil {
		return nil
	}
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		c, err := p.Retrieve(ctx)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrCredentials, err)
		}
		return c, err
	})
}
